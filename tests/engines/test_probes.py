"""The probes on DuckDB and PostgreSQL; Spark's are beside its one JVM. And what only one engine does."""

from collections.abc import Callable

import duckdb
import pytest

from discreet.engines.duckdb.engine import DuckDB
from discreet.sql.dialects import DUCKDB, POSTGRES
from tests.engines.probes import PROBES, TEXTS, Tried
from tests.engines.servers import Server
from tests.support.random_tables import stored


@pytest.mark.parametrize("probe", PROBES)
def test_duckdb(probe: Callable[[Tried], None]) -> None:
    connection = duckdb.connect()
    probe(Tried(DUCKDB, lambda sql: connection.execute(sql).fetchall(), lambda place: stored(place, connection)))


@pytest.mark.parametrize("probe", PROBES)
def test_postgres(probe: Callable[[Tried], None], postgres: Server) -> None:
    probe(Tried(POSTGRES, lambda sql: postgres.owner.execute(sql).fetchall(), postgres.opened))  # type: ignore[call-overload]


def test_postgres_puts_the_cheap_test_first(postgres: Server) -> None:
    """AND is no guard: what costs less is done first. In a CASE it waits."""
    postgres.run(
        "CREATE OR REPLACE FUNCTION dear(ok boolean) RETURNS boolean LANGUAGE plpgsql COST 100000 AS 'BEGIN RETURN ok; END'",
        "DROP TABLE IF EXISTS texts",
        f"CREATE TABLE texts AS {TEXTS}",  # of a view with constants in it, even a CASE is worked out beforehand
    )
    engine = Tried(POSTGRES, lambda sql: postgres.owner.execute(sql).fetchall(), postgres.opened)  # type: ignore[call-overload]
    assert engine.by_itself("SELECT COUNT(*) FROM texts WHERE dear(ok) AND CAST(s AS INTEGER) > 0") == "raises"
    assert engine.by_itself("SELECT COUNT(*) FROM texts WHERE CASE WHEN dear(ok) THEN CAST(s AS INTEGER) > 0 END") == (1,)


def test_duckdb_makes_doubles_of_wide_numbers() -> None:
    """fetchnumpy does; what is fetched here stays whole."""
    connection = duckdb.connect()
    connection.execute("CREATE OR REPLACE TABLE t AS SELECT 4611686018427387905::HUGEINT AS x")
    assert connection.execute("SELECT x FROM t").fetchnumpy()["x"].dtype == "float64"
    [row] = DuckDB(connection, "t")._execute("SELECT x FROM t")
    assert row == (2**62 + 1,)
