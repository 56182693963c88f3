"""What streams and models read of an engine: the rows of each unit, not bounded yet, equal to the oracle's, on DuckDB and
PostgreSQL. Spark runs the same in its own test, beside its one JVM."""

from functools import partial

import duckdb
import pytest

from tests.support.conformance import (
    count_kept,
    find_contribution_differences,
    find_record_differences,
    is_kept_equally,
)
from tests.support.mangled_queries import Opening
from tests.support.postgres_server import Server
from tests.support.random_tables import Declaring, as_it_is, stored, with_row_units, with_several_columns


@pytest.fixture(params=["duckdb", "postgres"])
def open_world(request: pytest.FixtureRequest) -> Opening:
    if request.param == "duckdb":
        return partial(stored, connection=duckdb.connect())
    server: Server = request.getfixturevalue("postgres")
    return server.open_world


@pytest.mark.parametrize("declare", [as_it_is, with_several_columns])
def test_contributions_equal_the_oracle(declare: Declaring, open_world: Opening) -> None:
    assert find_contribution_differences(open_world, range(300, 320), 3, declare) == []


@pytest.mark.parametrize("declare", [as_it_is, with_several_columns, with_row_units])
def test_records_are_the_rows_of_units(declare: Declaring, open_world: Opening) -> None:
    assert find_record_differences(open_world, range(300, 320), declare) == []


def test_every_group_of_a_unit_is_kept_equally_often(open_world: Opening) -> None:
    counts = count_kept(open_world)
    assert sum(counts.values()) == 6000
    assert is_kept_equally(counts)
    assert not is_kept_equally({0: 1800, 1: 1200, 2: 1200, 3: 900, 4: 900})  # a mutant's
