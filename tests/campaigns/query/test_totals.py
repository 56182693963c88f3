"""DuckDB's exact integers equal those of the oracle, on 600 random tables with 20 queries each."""

import duckdb
import pytest

from tests.support.random_tables import by_duckdb, compare_totals


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(10_000, 10_600, 50))
def test_totals_equal_the_oracle_at_length(start: int) -> None:
    compare_totals(by_duckdb(duckdb.connect()), range(start, start + 50), 20)
