"""DuckDB's exact integers equal those of the oracle, bit for bit."""

import duckdb
import pytest

from tests.support.random_tables import by_duckdb, compare_totals
from tests.support.rounds import every_nth_by_day


@pytest.mark.parametrize("seeds", every_nth_by_day([range(26), range(26, 52)], 2), ids=str)
def test_totals_equal_the_oracle(seeds: range) -> None:
    assert compare_totals(by_duckdb(duckdb.connect()), seeds, 10) >= 250
