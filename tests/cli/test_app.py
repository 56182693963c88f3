"""Properties of every command: help with an example, a page for every error, an exit code; and the overview."""

import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from discreet import BudgetExceeded, EngineFailed, QueryRefused, SourceRefused, cli, errors
from discreet.cli import app
from discreet.errors import DiscreetError
from tests.support.console import run_process

ROOT = Path(__file__).parents[2]
WITHOUT_JSON = {"policy init", "ledger head", "ledger key"}
"""What these print is itself a file for programs: TOML, a signed JSON head, a key."""


def commands(command: Any, name: str = "") -> list[tuple[str, Any]]:
    if not hasattr(command, "commands"):
        return [(name, command)]
    return [found for part, each in command.commands.items() for found in commands(each, f"{name} {part}".strip())]


ALL = commands(get_command(app))


@pytest.mark.parametrize(("name", "command"), ALL, ids=[name for name, _ in ALL])
def test_every_command_has_an_example_and_json(name: str, command: Any) -> None:
    assert f"discreet {name}" in (command.epilog or "")
    assert command.help
    flags = {flag for parameter in command.params for flag in parameter.opts}
    assert ("--json" in flags) != (name in WITHOUT_JSON)
    assert all(getattr(parameter, "help", None) for parameter in command.params), "every option says what it is"


def test_the_overview_names_commands_that_exist() -> None:
    shown = CliRunner().invoke(app, [])
    assert shown.exit_code == 0
    named = re.findall(r"  discreet ([a-z]+(?: open| init| list)?)", shown.stdout)
    assert len(named) >= 9
    assert set(named) <= {name for name, _ in ALL}


def anchors(page: Path) -> set[str]:
    """As GitHub and mkdocs make them of headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("kind", [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, DiscreetError)])
def test_every_error_has_a_page(kind: type[DiscreetError]) -> None:
    page, _, anchor = kind.see.partition("#")
    assert anchor in anchors(ROOT / page)


@pytest.mark.parametrize(
    ("mistake", "code"),
    [
        (BudgetExceeded("ε", cost=Fraction(2), remaining=Fraction(1)), 3),
        (EngineFailed(), 4),
        (SourceRefused("no such file", "check the path"), 4),
        (QueryRefused("not in the language", "ask otherwise"), 2),
    ],
)
def test_every_kind_of_mistake_has_its_exit_code(mistake: Exception, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise mistake

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == code


def test_version_and_help() -> None:
    assert run_process("--version").stdout.startswith("discreet 0.")
    assert "demo" in run_process("--help").stdout
    assert "Example" in run_process("demo", "--help").stdout
    shown = run_process("ask", "--help").stdout
    for word in ("Cost or error", "Source", "--pilot", "--consistent", "Examples:"):
        assert word in shown
