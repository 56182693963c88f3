"""Pitfalls of DuckDB and PostgreSQL, and of one engine alone. Those of Spark are in the campaign, beside its one JVM."""

from collections.abc import Callable

import duckdb
import pytest

from discreet.engines.duckdb.engine import DuckDB
from discreet.sql.dialects import DUCKDB, POSTGRES
from tests.support.engine_pitfalls import PITFALLS, TEXTS, EngineUnderTest
from tests.support.postgres_server import Server
from tests.support.random_tables import stored


@pytest.mark.parametrize("pitfall", PITFALLS)
def test_duckdb(pitfall: Callable[[EngineUnderTest], None]) -> None:
    connection = duckdb.connect()
    pitfall(EngineUnderTest(DUCKDB, lambda sql: connection.execute(sql).fetchall(), lambda table: stored(table, connection)))


@pytest.mark.parametrize("pitfall", PITFALLS)
def test_postgres(pitfall: Callable[[EngineUnderTest], None], postgres: Server) -> None:
    pitfall(EngineUnderTest(POSTGRES, lambda sql: postgres.owner.execute(sql).fetchall(), postgres.open_world))  # type: ignore[call-overload]


def test_postgres_puts_the_cheap_test_first(postgres: Server) -> None:
    """AND is no guard: the cheaper condition is evaluated first. CASE keeps the order."""
    postgres.run(
        "CREATE OR REPLACE FUNCTION costly(ok boolean) RETURNS boolean LANGUAGE plpgsql COST 100000 AS "
        "'BEGIN RETURN ok; END'",
        "DROP TABLE IF EXISTS texts",
        f"CREATE TABLE texts AS {TEXTS}",  # in a view of constants, even a CASE is evaluated beforehand
    )
    engine = EngineUnderTest(POSTGRES, lambda sql: postgres.owner.execute(sql).fetchall(), postgres.open_world)  # type: ignore[call-overload]
    assert engine.run_alone("SELECT COUNT(*) FROM texts WHERE costly(ok) AND CAST(s AS INTEGER) > 0") == "raises"
    assert engine.run_alone("SELECT COUNT(*) FROM texts WHERE CASE WHEN costly(ok) THEN CAST(s AS INTEGER) > 0 END") == (1,)


def test_duckdb_makes_doubles_of_wide_numbers() -> None:
    """fetchnumpy does; the engine fetches whole numbers."""
    connection = duckdb.connect()
    connection.execute("CREATE OR REPLACE TABLE t AS SELECT 4611686018427387905::HUGEINT AS x")
    assert connection.execute("SELECT x FROM t").fetchnumpy()["x"].dtype == "float64"
    [row] = DuckDB(connection, "t")._execute("SELECT x FROM t")
    assert row == (2**62 + 1,)
