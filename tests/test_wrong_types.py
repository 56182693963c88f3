"""Every public function and class refuses a value of a wrong type with an error of discreet, not with one of Python."""

import inspect
from contextlib import suppress
from enum import Enum
from typing import Any

import pytest

import discreet
from discreet.errors import DiscreetError

RESULTS = ("Bounds", "Finding", "Plan", "Event")
"""What functions return, and nobody constructs."""


def list_entry_points() -> list[str]:
    found = []
    for name in discreet.__all__:
        value = getattr(discreet, name)
        is_other = isinstance(value, type) and issubclass(value, Enum | Exception)
        if callable(value) and not is_other and name not in RESULTS:
            found.append(name)
    return found


@pytest.mark.parametrize("wrong", ["nonsense", object(), [1], None], ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("name", list_entry_points())
def test_a_wrong_type_in_place_of_what_is_required(name: str, wrong: Any) -> None:
    entry = getattr(discreet, name)
    required = [each for each in inspect.signature(entry).parameters.values() if each.default is each.empty]
    by_place = [wrong for each in required if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    by_name = {each.name: wrong for each in required if each.kind is each.KEYWORD_ONLY}
    with suppress(DiscreetError):
        entry(*by_place, **by_name)


@pytest.mark.parametrize("wrong", ["nonsense", object(), 3.7, [1], {"a": 1}], ids=lambda value: type(value).__name__)
@pytest.mark.parametrize(
    "name", ["query", "error", "rmse", "epsilon", "delta", "n", "queries", "confidence", "size", "neighbours"]
)
def test_a_wrong_type_of_one_parameter_of_a_plan(name: str, wrong: Any) -> None:
    given: dict[str, Any] = {"query": discreet.Count(), "error": 20, "n": 100} | {name: wrong}
    with suppress(DiscreetError):
        discreet.plan(**given)
