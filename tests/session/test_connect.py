"""What is declared wrongly is refused, with the name of the parameter."""

from typing import Any

import pytest

from discreet import Neighbours
from discreet.accounting.currencies import Zcdp
from discreet.errors import BadParameter
from tests.support.people import session

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
