"""`discreet help` shows every page that an error names, in a terminal, in a pipe and as JSON."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from discreet.cli.help import find_topic, list_pages, list_roles, list_sections, read_topic
from discreet.errors import BadParameter
from tests.support.console import DISCREET, run

DOCS = Path(__file__).parents[2] / "docs"


def test_every_page_is_a_topic_and_is_shown_as_it_is() -> None:
    assert {f"{page}.md" for page in list_pages()} == {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    for page in list_pages():
        assert find_topic(page) == page
        assert read_topic(page) == (DOCS / f"{page}.md").read_text(encoding="utf-8")
    shown = run("help", "asking")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout == read_topic("asking"), "in a pipe the text is plain"


@pytest.mark.parametrize("page", [page for page in list_pages() if list_sections(page)])
def test_the_sections_of_a_page_are_its_text_below_the_title(page: str) -> None:
    """Sections at one level are disjoint and leave out nothing."""
    text = read_topic(page)
    parts = [read_topic(section) for section in list_sections(page)]
    assert all(part.startswith("##") and part.rstrip() in text for part in parts)
    upper = [part for part in parts if part.startswith("## ")]
    assert "".join(re.sub(r"\s", "", part) for part in upper) == re.sub(r"\s", "", text[text.index("\n## ") :])


@pytest.mark.parametrize(
    ("typed", "topic"),
    [
        ("Asking", "asking"), ("docs/asking.md", "asking"), ("docs/ledger.md#quarantine", "ledger#quarantine"),
        ("quarantine", "ledger#quarantine"), ("--bounds", "asking#what-is-declared-and-why"),
        ("max-rows", "asking#what-is-declared-and-why"), ("verify", "ledger#certificates"),
        ("ledger check", "ledger#what-a-check-finds"),
        ("6-composition", "guide/6-composition"), ("pilot", "asking#state-the-error-get-the-cost"),
    ],
)  # fmt: skip
def test_a_topic_is_found_by_page_section_command_and_option(typed: str, topic: str) -> None:
    assert find_topic(typed) == topic
    assert json.loads(run("help", "--json", "--", typed).stdout) == {"topic": topic, "text": read_topic(topic)}


def test_an_unknown_topic_names_the_nearest() -> None:
    with pytest.raises(BadParameter, match=r"topic is 'asknig': .* Did you mean asking"):
        find_topic("asknig")
    with pytest.raises(BadParameter, match=r"List all topics with: discreet help$"):
        find_topic("xyzzyxyzzy")


def test_without_a_topic_pages_are_listed_by_role() -> None:
    shown = run("help").stdout
    for role, topics in list_roles().items():
        assert role in shown
        assert all(topic in shown for topic in topics)
    assert {"analyst", "steward", "engineer", "student", "reader"} <= set(re.findall(r"\w+", " ".join(list_roles())))
    assert all(page in shown for page in list_pages()), "no page is left out"
    listed = json.loads(run("help", "--json").stdout)
    assert listed["topics"] == list(list_pages())
    assert listed["roles"] == {role: list(topics) for role, topics in list_roles().items()}


def run_in_terminal(*arguments: str) -> str:
    """Run a command whose output is a terminal of 80 columns."""
    ours, theirs = os.openpty()
    with os.fdopen(ours, "rb", buffering=0) as screen:
        started = subprocess.Popen(
            [sys.executable, DISCREET, *arguments], stdout=theirs, stderr=theirs, stdin=subprocess.DEVNULL,
            env=os.environ | {"COLUMNS": "80", "TERM": "xterm"},
        )  # fmt: skip
        os.close(theirs)
        shown = b""
        try:
            while part := screen.read(1 << 16):
                shown += part
        except OSError:  # the other end was closed
            pass
        assert started.wait(60) == 0
    return shown.decode()


def test_in_a_terminal_markdown_is_rendered() -> None:
    shown = run_in_terminal("help", "ledger#quarantine")
    assert "## Quarantine" not in shown
    assert "Quarantine" in shown
    assert "\x1b[" in shown, "headings and code are styled"
    assert "The whole page: discreet help ledger" in shown
