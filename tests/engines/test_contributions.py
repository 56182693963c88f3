"""What streams and models read of an engine: the rows of each unit, not bounded yet, equal to the oracle's, on DuckDB and
PostgreSQL. Spark runs the same in its own test, beside its one JVM."""

import duckdb
import pytest

from tests.support.conformance import find_contribution_differences, find_record_differences
from tests.support.mangled_queries import Opening
from tests.support.postgres_server import Server
from tests.support.random_tables import Declaring, as_it_is, stored, with_row_units, with_several_columns


@pytest.fixture(params=["duckdb", "postgres"])
def open_world(request: pytest.FixtureRequest) -> Opening:
    if request.param == "duckdb":
        return lambda table: stored(table, duckdb.connect())
    server: Server = request.getfixturevalue("postgres")
    return server.open_world


@pytest.mark.parametrize("declare", [as_it_is, with_several_columns])
def test_contributions_equal_the_oracle(declare: Declaring, open_world: Opening) -> None:
    assert find_contribution_differences(open_world, range(300, 320), 3, declare) == []


@pytest.mark.parametrize("declare", [as_it_is, with_several_columns, with_row_units])
def test_records_are_the_rows_of_units(declare: Declaring, open_world: Opening) -> None:
    assert find_record_differences(open_world, range(300, 320), declare) == []
