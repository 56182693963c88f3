"""Bounds are discovered of a numeric column only."""

from typing import Any

import pytest

from discreet import QueryRefused
from tests.support.people import session


@pytest.mark.parametrize("column", [["pay"], 5, None, "nobody"])
def test_bounds_are_discovered_of_a_column_of_numbers(column: Any) -> None:
    place = session(bounds="auto")
    with pytest.raises(QueryRefused, match="not a column of numbers"):
        place.find_bounds(column, epsilon=1)
    assert place.account.budget.spent == 0
