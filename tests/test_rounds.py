"""Cases by day and at night: none is lost, and by day each two values meet."""

from itertools import combinations, product
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.support.rounds import at_night, choose_by_day, every_nth_by_day, pairs_by_day, search_by_day

DIMENSIONS = ("abcde", "xyz", (0, 1), (True, False))


def split(cases: list[Any]) -> tuple[list[Any], list[Any]]:
    """The values of the cases that run by day, and of all."""
    return [case.values for case in cases if not case.marks], [case.values for case in cases]


def meet(cases: list[Any]) -> bool:
    """Whether each two values of two dimensions are in one of the cases."""
    places = combinations(range(len(DIMENSIONS)), 2)
    return all({(case[i], case[j]) for case in cases} == {*product(DIMENSIONS[i], DIMENSIONS[j])} for i, j in places)


def test_each_two_values_meet_by_day_and_all_cases_run_at_night() -> None:
    by_day, every = split(pairs_by_day(*DIMENSIONS))
    assert every == [*product(*DIMENSIONS)]
    assert meet(by_day)
    assert len(by_day) <= 18  # 15 are necessary
    assert not meet(by_day[1:]), "the mutant leaves out a case"


def test_no_case_is_lost() -> None:
    assert split(every_nth_by_day(range(7), 3)) == ([(0,), (3,), (6,)], [(i,) for i in range(7)])
    assert split(choose_by_day("abc", lambda case: case != "b")) == ([("a",), ("c",)], [("a",), ("b",), ("c",)])
    assert [mark.name for mark in at_night(1, 2).marks] == ["nightly"]


@search_by_day(5, 50, st.integers(0, 3))
def test_a_search_that_holds(number: int) -> None:
    assert number < 4


def test_a_search_notices_a_property_that_does_not_hold() -> None:
    @search_by_day(50, 100, st.integers(0, 3))
    def always_less(number: int) -> None:
        assert number < 3

    with pytest.raises(AssertionError):
        always_less(50)
