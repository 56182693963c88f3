"""The engines differ where a marker says so, and nowhere else. Spark's types are read beside its one JVM."""

import duckdb
import pytest

from discreet.engines.duckdb.engine import DuckDB
from discreet.engines.postgres.engine import Postgres
from discreet.query.contribution import bound_contributions
from discreet.query.parser import parse_sql
from discreet.query.schema import Column, Kind, Table
from discreet.sql.dialects import MAX_ROWS
from discreet.units import Neighbours
from tests.engines.kinds import declared, unmarked
from tests.engines.markers import ENGINES, MARKERS
from tests.engines.servers import Server
from tests.engines.test_golden import ENGINES as ON_PAPER
from tests.engines.test_golden import OnPaper


def test_every_marker_marks_a_difference_and_says_why() -> None:
    """But for what no engine guards."""
    same = {name for name, marker in MARKERS.items() if len({marker.of(engine) for engine in ENGINES}) == 1}
    assert same == {"a guard in a join"}
    assert all(len(marker.why.split()) > 5 for marker in MARKERS.values())


def test_types_in_duckdb() -> None:
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE kinds ({declared('duckdb')})")
    assert unmarked("duckdb", DuckDB(connection, "kinds")) == {}
    assert unmarked("postgres", DuckDB(connection, "kinds")) == {"points": Kind.REAL}  # the marker is needed


def test_types_in_postgres(postgres: Server) -> None:
    postgres.run("DROP TABLE IF EXISTS shared", f"CREATE TABLE shared ({declared('postgres')})")
    assert unmarked("postgres", Postgres.open(postgres.reader, "shared")) == {}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("most", "wide"), [((1 << 63) // MAX_ROWS - 1, False), ((1 << 63) // MAX_ROWS, True)])
def test_sums(engine: str, most: int, wide: bool) -> None:
    columns = {"uid": Column(Kind.INTEGER), "points": Column(Kind.INTEGER).with_bounds(0, most)}
    table = Table("people", "uid", columns, unique=True)
    question = bound_contributions(parse_sql("SELECT SUM(points) AS s FROM people", table), table, Neighbours.ADD_REMOVE)
    dialect, _ = ON_PAPER[engine]
    statement = OnPaper(dialect, {}).compile_totals(question)
    marker = MARKERS["sums that may pass 64 bits"]
    assert marker.of(engine) in statement if wide else marker.of("duckdb") in statement
    assert (marker.spark in statement) == (wide and engine == "spark")
