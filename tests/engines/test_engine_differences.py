"""The engines differ where `engine_differences` says so, and nowhere else. Spark's types are tested beside its one JVM."""

import duckdb
import pytest

from discreet.engines.duckdb.engine import DuckDB
from discreet.engines.postgres import Postgres
from discreet.query.contribution import bound_contributions
from discreet.query.parser import parse_sql
from discreet.query.schema import Column, Kind, Table
from discreet.sql.dialects import MAX_ROWS
from discreet.units import Neighbours
from tests.support.engine_differences import DIFFERENCES, ENGINES, column_definitions, find_unexpected_kinds
from tests.support.postgres_server import Server
from tests.support.statement_engine import ENGINES as DIALECTS
from tests.support.statement_engine import StatementEngine


def test_every_difference_is_one_and_has_a_reason() -> None:
    """No engine guards the key of a join: that entry is no difference, but a pitfall of all."""
    same = {name for name, each in DIFFERENCES.items() if len({each.of(engine) for engine in ENGINES}) == 1}
    assert same == {"a guard in a join"}
    assert all(len(each.why.split()) > 5 for each in DIFFERENCES.values())


def test_types_in_duckdb() -> None:
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE kinds ({column_definitions('duckdb')})")
    assert find_unexpected_kinds("duckdb", DuckDB(connection, "kinds")) == {}
    assert find_unexpected_kinds("postgres", DuckDB(connection, "kinds")) == {"points": Kind.REAL}  # the difference is there


def test_types_in_postgres(postgres: Server) -> None:
    postgres.run("DROP TABLE IF EXISTS shared", f"CREATE TABLE shared ({column_definitions('postgres')})")
    assert find_unexpected_kinds("postgres", Postgres.open(postgres.reader, "shared")) == {}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("most", "wide"), [((1 << 63) // MAX_ROWS - 1, False), ((1 << 63) // MAX_ROWS, True)])
def test_sums(engine: str, most: int, wide: bool) -> None:
    columns = {"uid": Column(Kind.INTEGER), "points": Column(Kind.INTEGER).with_bounds(0, most)}
    table = Table("people", "uid", columns, unique=True)
    query = bound_contributions(parse_sql("SELECT SUM(points) AS s FROM people", table), table, Neighbours.ADD_REMOVE)
    dialect, _ = DIALECTS[engine]
    statement = StatementEngine(dialect, {}).compile_totals(query)
    sums = DIFFERENCES["sums that may pass 64 bits"]
    assert sums.of(engine) in statement if wide else sums.of("duckdb") in statement
    assert (sums.spark in statement) == (wide and engine == "spark")
