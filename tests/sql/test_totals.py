"""DuckDB's exact integers equal those of the oracle, bit for bit."""

import duckdb

from tests.support.random_tables import by_duckdb, compare_totals


def test_totals_equal_the_oracle() -> None:
    assert compare_totals(by_duckdb(duckdb.connect()), range(52), 10) >= 500
