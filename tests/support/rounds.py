"""Which cases run by day and which at night: the marker `nightly` decides, so the code of both rounds is the same."""

from collections.abc import Callable, Iterable
from itertools import combinations, product
from typing import Any

import pytest
from hypothesis import given, settings


def at_night(*values: Any) -> Any:
    """A case that runs at night."""
    return pytest.param(*values, marks=pytest.mark.nightly)


def choose_by_day(cases: Iterable[Any], is_by_day: Callable[[Any], bool]) -> list[Any]:
    """Return all cases; those that are not chosen run at night."""
    return [pytest.param(case) if is_by_day(case) else at_night(case) for case in cases]


def every_nth_by_day(cases: Iterable[Any], step: int) -> list[Any]:
    """Return all cases: the first and every `step`-th after it run by day, the others at night."""
    return [at_night(case) if place % step else pytest.param(case) for place, case in enumerate(cases)]


def pairs_by_day(*dimensions: Iterable[Any]) -> list[Any]:
    """Return the full product. By day, each two values of two dimensions meet in some case; the other cases run at night.

    For dimensions of which no three act together.
    """
    values = [tuple(each) for each in dimensions]
    cases = list(product(*(range(len(each)) for each in values)))
    missing = {pair for case in cases for pair in _list_pairs(case)}
    by_day = set()
    while missing:
        best = max(cases, key=lambda case: len(missing & _list_pairs(case)))
        by_day.add(best)
        missing -= _list_pairs(best)
    return [
        (pytest.param if case in by_day else at_night)(*(each[place] for each, place in zip(values, case, strict=True)))
        for case in cases
    ]


def _list_pairs(case: tuple[int, ...]) -> set[tuple[tuple[int, int], ...]]:
    return set(combinations(enumerate(case), 2))


def search_by_day(examples: int, more: int, *strategies: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Test a property with this many examples of Hypothesis by day, and with more at night; the same ones in every run."""

    def decorate(check: Callable[..., None]) -> Callable[..., None]:
        @pytest.mark.parametrize("examples", [examples, at_night(more)])
        def test(examples: int) -> None:
            settings(max_examples=examples, deadline=None, derandomize=True)(given(*strategies)(check))()

        test.__name__, test.__qualname__, test.__doc__ = check.__name__, check.__qualname__, check.__doc__
        test.__module__ = check.__module__
        return test

    return decorate
