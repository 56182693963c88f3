"""`discreet help` shows every page that an error names, in a terminal, in a pipe and as JSON."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from discreet.cli.help import (
    find_topic,
    list_commands,
    list_pages,
    list_roles,
    list_sections,
    list_words,
    read_topic,
    show_topic,
)  # fmt: skip
from discreet.cli.pages import PAGES_OF_WORDS, list_spellings, normalise, to_plain_formula, to_plain_formulas
from discreet.errors import BadParameter
from tests.support.console import DISCREET, run

DOCS = Path(__file__).parents[2] / "docs"
GLOSSARY = DOCS.parent / "GLOSSARY.md"
LATEX = re.compile(r"\\[a-zA-Z]+|\$")


def without_code(text: str) -> str:
    """A page without its blocks and words of code."""
    return re.sub(r"(?ms)^[ \t]*```.*?^[ \t]*```[ \t]*$|`[^`\n]+`", "", text)


def test_every_page_is_a_topic_and_is_shown_as_it_is() -> None:
    pages = {path.relative_to(DOCS).with_suffix("").as_posix(): path for path in DOCS.rglob("*.md")} | {"glossary": GLOSSARY}
    assert set(list_pages()) == set(pages)
    for page in list_pages():
        assert find_topic(page) == page
        text = pages[page].read_text(encoding="utf-8")
        assert read_topic(page) == to_plain_formulas(text)
        assert read_topic(page) == text or LATEX.search(without_code(text)), "only formulas are rewritten"
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
    assert json.loads(run("help", "--json", "--", typed).stdout) == {"topic": topic, "text": show_topic(typed)}
    assert show_topic(typed).endswith(read_topic(topic))


PRINTED = (
    "ρ", "rho", "RHO", "ε", "eps", "epsilon", "δ", "delta", "μ", "mu", "zCDP", "zcdp", "GDP", "RDP", "pure DP",
    "currency", "partition selection", "partition-selection", "reliable", "not reliable", "interval", "intervals",
    "half-width", "confidence", "simultaneous", "clipping", "clipped", "clipped statistic", "bounds", "privacy unit", "unit",
    "neighbours", "budget", "spent", "remaining", "account", "ledger", "entry", "cost", "debit", "charged", "certificate",
    "quote", "answer", "estimate", "group", "keys", "policy", "contribution bounds", "sensitivity", "post-processing",
    "quarantine", "privacy loss", "privacy losses", "DP", "PLD", "alpha", "α",
)  # fmt: skip
"""Words that answers, quotes, budgets and guarantees print, in the spellings that a reader types."""


@pytest.mark.parametrize("typed", PRINTED)
def test_a_word_that_is_printed_shows_its_row_of_the_glossary(typed: str) -> None:
    rows = {row.split(" | ")[1] for row in GLOSSARY.read_text(encoding="utf-8").splitlines() if row.count(" | ") >= 3}
    name, _, means = show_topic(typed).partition("\n")[0].removeprefix("**").partition("**: ")
    assert name
    assert means in rows


def test_every_word_of_the_glossary_is_found_and_its_page_exists() -> None:
    words = list_words()
    assert len({word.title for word in words.values()}) > 100
    for spelling, word in words.items():
        assert show_topic(spelling).startswith(word.text), spelling
        assert find_topic(word.page) == word.page
        assert normalise(spelling) == spelling
        assert spelling in list_spellings(word)
    titles = {re.split(", | · | \\(", word.title)[0] for word in words.values()}
    assert set(PAGES_OF_WORDS) <= titles, "each is the first name of a row"


def test_words_need_no_quotation_marks_and_a_word_names_its_page() -> None:
    shown = run("help", "partition", "selection").stdout
    assert shown == show_topic("partition selection")
    assert shown.startswith("**partition selection**: Which group keys")
    assert "More: discreet help asking" in shown
    assert "More: discreet help choosing-epsilon" in show_topic("ε")
    assert find_topic("account") == "ledger#accounts"


def test_every_command_is_a_topic() -> None:
    commands = list_commands()
    assert {"ask", "policy init", "ledger check"} <= set(commands)
    for command in commands:
        assert read_topic(find_topic(command))


@pytest.mark.parametrize("page", list_pages())
def test_no_latex_is_left_in_what_is_shown(page: str) -> None:
    assert not LATEX.search(without_code(show_topic(page)))


def test_a_formula_that_is_not_rewritten_is_noticed() -> None:
    assert LATEX.search(without_code(r"so $$\frac{1}{2}$$"))
    assert LATEX.search(to_plain_formula(r"\unknown{x}"))
    assert not LATEX.search(to_plain_formulas(r"so $$\frac{1}{2^{-z\varepsilon}}$$ and $\sqrt{\frac{a}{b}}$"))


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


@pytest.mark.parametrize("text", ["LIKE", "ORDER BY", "group by", "max rows", "laplace", "guide/1", "guide/3"])
def test_words_of_sql_blanks_and_numbers_of_the_guide_are_topics(text: str) -> None:
    topic = find_topic(text)
    assert find_topic(topic) == topic


def list_flags() -> dict[str, set[str]]:
    """The commands of every option, as the golden interface has them."""
    commands = json.loads((Path(__file__).parent / "golden" / "commands.json").read_text(encoding="utf-8"))
    found: dict[str, set[str]] = {}
    for command, interface in commands.items():
        for flag in re.findall(r'"(--[a-z-]+)"', json.dumps(interface)):
            found.setdefault(flag, set()).add(command)
    return found


def test_every_option_of_every_command_is_a_topic() -> None:
    flags = list_flags()
    assert {"--since", "--force", "--dry-run"} <= flags.keys()
    for flag in flags.keys() - {"--help"}:
        shown = show_topic(flag)
        assert shown.startswith(f"`{flag}` of discreet"), flag
        assert shown.endswith(read_topic(find_topic(flag)))
        assert find_topic(flag.removeprefix("--"))
    since = show_topic("since")
    assert since.startswith("`--since` of discreet ledger check: A file for the result.")
    assert find_topic("--since") == "ledger#what-a-check-finds"


@pytest.mark.parametrize("typed", ["sorce", "indx", "forse", "ide", "accont", "bound s", "sinc"])
def test_no_suggestion_is_made_twice(typed: str) -> None:
    with pytest.raises(BadParameter) as unknown:
        find_topic(typed)
    names = unknown.value.hint.removeprefix("did you mean ").removesuffix("?").split(" or ")
    assert len(names) == len(set(names))
