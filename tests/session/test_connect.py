"""What is declared wrongly is refused, with the name of the parameter."""

from pathlib import Path
from typing import Any

import pytest

from discreet import Neighbours
from discreet.accounting.currencies import Zcdp
from discreet.errors import BadParameter
from tests.support.people import session

ROOT = Path(__file__).parents[2]

DECLARATIONS: list[tuple[dict[str, Any], str]] = [
    ({"unique": "no"}, "unique is 'no'"),
    ({"bounds": {"pay": (0,)}}, "bounds of `pay` are"),
    ({"bounds": {"pay": 5}}, "bounds of `pay` are 5"),
    ({"bounds": [("pay", 0, 5)]}, "bounds is of type list"),
    ({"keys": {"dept": 5}}, "keys of `dept` are 5"),
    ({"keys": {"dept": "abc"}}, "keys of `dept` are 'abc'"),
    ({"keys": [["a"]]}, "keys is of type list"),
    ({"keys": {"dept": [["a"]]}}, "keys of `dept` are"),
    ({"table": 5}, "table is of type int"),
    ({"policy": 5}, "policy is of type int"),
    ({"public": ["cities.csv"]}, "public is of type list"),
    ({"unit": [1]}, "nor a tuple of names"),
    ({"unit": ()}, "nor a tuple of names"),
    ({"unit": ("id", "nid")}, "no such column"),
    ({"unit": ("id", "id")}, "named twice"),
    ({"neighbours": "friends"}, "Take add-remove or replace"),
    ({"neighbours": ["replace"]}, "Take add-remove or replace"),
    ({"currency": "euro"}, "Take pure, zcdp"),
    ({"currency": 5}, "currency is of type int"),
]


@pytest.mark.parametrize(("declared", "message"), DECLARATIONS)
def test_a_wrong_declaration_is_refused(declared: dict[str, Any], message: str) -> None:
    with pytest.raises(BadParameter, match=message):
        session(**declared)


def test_currencies_and_neighbours_have_the_names_of_the_command_line() -> None:
    opened = session(delta=1e-6, currency="zcdp", neighbours="replace")
    assert opened.account.budget.currency == Zcdp()
    assert opened.neighbours is Neighbours.REPLACE


def test_connect_says_what_it_returns(tmp_path: Path) -> None:
    """A type checker knows a local session by its budget, and a session on a service by having none. It reads what it
    found when `make check` ran it with the same settings, and goes through the package if there is nothing."""
    import subprocess
    import sys

    program = tmp_path / "program.py"
    program.write_text(
        "from discreet import connect\n"
        "from discreet.session.asking import Asking\n"
        'reveal_type(connect("people.csv", unit="id", epsilon=1))\n'
        'reveal_type(connect("people.csv", unit="id", ledger="hr.ledger", account="hr"))\n'
        'reveal_type(connect("https://dp.example.org/people", token="dsc_x"))\n'
        'reveal_type(connect("https://dp.example.org/people").dummy(10))\n'
        'either: Asking = connect("https://dp.example.org/people")\n'
        'either = connect("people.csv", unit="id", epsilon=1)\n'
    )
    command = [sys.executable, "-m", "mypy", "--no-error-summary", str(program)]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT)
    revealed = [line.rpartition(".")[2].strip('"') for line in checked.stdout.splitlines() if "Revealed" in line]
    assert revealed == ["Session", "Session", "RemoteSession", "Session"], checked.stdout
    assert "error" not in checked.stdout
