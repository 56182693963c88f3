"""Contribution bounding on 800 pairs of neighbours with ten queries each."""

import duckdb
import pytest

from tests.support.random_tables import by_duckdb
from tests.support.sensitivity_property import broken


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(30_000, 30_800, 50))
def test_the_engine_bounds_contributions_at_length(start: int) -> None:
    assert broken(by_duckdb(duckdb.connect()), range(start, start + 50), 10) == []
