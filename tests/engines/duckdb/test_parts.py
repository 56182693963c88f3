"""A query in parts gives the same integers as at once, and is answered where memory does not suffice for the whole."""

import traceback
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest
from sqlglot import exp

from discreet.engines.base import OutOfResources, owner_log
from discreet.engines.duckdb import engine as duckdb_engine
from discreet.engines.duckdb.engine import PART_COUNTS, DuckDB, OutOfMemory, Part, sum_over_parts
from discreet.errors import EngineFailed
from discreet.query.contribution import bound_contributions
from discreet.query.parser import parse_sql
from discreet.query.schema import Table
from discreet.session.connect import connect
from discreet.units import Neighbours
from tests.support.conformance import find_differences, find_join_differences
from tests.support.random_tables import World, stored, world
from tests.support.rounds import every_nth_by_day

ROWS = 2_000_000
COUNT = "SELECT dept, COUNT(*) AS n FROM t GROUP BY dept"


class SmallMemory(DuckDB):
    """An engine without enough memory for a whole table, except for distinct counts, which have no parts."""

    def _execute(self, statement: str) -> Iterator[tuple[Any, ...]]:
        if "HASH(" not in statement and "COUNT(DISTINCT" not in statement:
            raise OutOfMemory
        return super()._execute(statement)


def open_small(table: World, connection: duckdb.DuckDBPyConnection) -> SmallMemory:
    return SmallMemory(stored(table, connection).connection, "people")


def restrict_by_row(part: Part, source: exp.Expr, unit: str) -> exp.Expr:
    """The mutant: a unit's rows are in several parts, and each part takes its first groups for the first."""
    numbered = exp.select("*", exp.alias_(exp.maybe_parse("row_number() OVER ()"), "row")).from_(source).subquery()
    kept = exp.select("* EXCLUDE (row)", dialect="duckdb").from_(numbered)
    return kept.where(f"HASH(row) % {part.count} = {part.index}", dialect="duckdb").subquery()


@pytest.mark.parametrize("start", every_nth_by_day(range(2), 2))
def test_parts_give_the_same_integers_as_the_whole(start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duckdb_engine, "PART_COUNTS", (3,))
    opening = partial(open_small, connection=duckdb.connect())
    assert find_differences(opening, range(start, 20, 2), 3) == []
    assert find_join_differences(opening, range(start, 3, 2), 2) == []


class NoMemory(DuckDB):
    """An engine without enough memory for anything."""

    def _execute(self, statement: str) -> Iterator[tuple[Any, ...]]:
        raise OutOfMemory


def test_a_distinct_count_is_never_added_up_over_parts() -> None:
    """Two units may bring the same value, and the sum over parts would count it twice."""
    table = world(Random(1))
    query = parse_sql("SELECT COUNT(DISTINCT dept) AS n, COUNT(*) AS m FROM people", table.table)
    bounded = bound_contributions(query, table.table, Neighbours.ADD_REMOVE)
    with pytest.raises(OutOfResources):
        list(NoMemory(stored(table, duckdb.connect()).connection, "people").read_totals(bounded))


def test_parts_that_split_a_unit_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duckdb_engine, "PART_COUNTS", (3,))
    monkeypatch.setattr(Part, "restrict", restrict_by_row)
    assert len(find_differences(partial(open_small, connection=duckdb.connect()), range(8), 3)) >= 3


def test_a_query_that_memory_does_not_suffice_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = {"memory_limit": "20MB", "threads": "2", "temp_directory": str(tmp_path)}
    with duckdb.connect(config=settings) as little, duckdb.connect() as ample:
        for connection in (little, ample):
            connection.execute(
                "CREATE TABLE t AS SELECT i % 700000 AS person, 'd' || hash(i) % 50 AS dept "
                f"FROM range({ROWS}) r(i)"
            )  # fmt: skip
        owner_log.addHandler(caplog.handler)
        found = [_totals(DuckDB(connection, "t")) for connection in (little, ample)]
        owner_log.removeHandler(caplog.handler)
    assert found[0] == found[1]
    assert len(found[0]) == 50
    assert "Out of Memory" in caplog.text  # so the whole did not fit


def _totals(engine: DuckDB) -> dict[Any, Any]:
    table = Table("t", "person", engine.describe_columns(), max_groups=2, max_rows=3)
    return {
        keys: row
        for row, keys in engine.read_totals(bound_contributions(parse_sql(COUNT, table), table, Neighbours.ADD_REMOVE))
    }


def test_smaller_parts_are_tried_before_the_query_fails() -> None:
    tried: list[int] = []

    def run(part: Part, enough: int) -> list[tuple[Any, ...]]:
        tried.append(part.count)
        if part.count < enough:
            raise OutOfMemory
        return [(1, part.index % 2)]

    assert sorted(sum_over_parts(lambda part: run(part, 64), 1)) == [(32, 0), (32, 1)]
    assert tried == [8, *[64] * 64]
    with pytest.raises(EngineFailed) as failed:
        sum_over_parts(lambda part: run(part, 10**9), 1)
    assert str(failed.value) == str(EngineFailed())
    assert tried[-3:] == list(PART_COUNTS)


def test_sums_over_parts_saturate_as_everywhere() -> None:
    assert list(sum_over_parts(lambda part: [(2**63 - 1, -(2**63 - 1), 7, "key")], 3)) == [(2**63 - 1, 1 - 2**63, 56, "key")]


@pytest.mark.parametrize("unique", [True, False])
def test_sums_beyond_64_bits_in_a_part_are_those_of_the_whole(unique: bool) -> None:
    """A part has either values far above or values far below: it must not saturate where the whole does not."""
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE t AS SELECT range AS person, CASE WHEN hash(range) % 8 < 4 THEN 1 ELSE -1 END * 1125899906842624 AS x "
        "FROM range(200000)"
    )
    found = []
    for kind in (DuckDB, SmallMemory):
        engine = kind(connection, "t")
        columns = engine.describe_columns() | {"x": engine.describe_columns()["x"].with_bounds(-(2**50), 2**50)}
        table = Table("t", "person", columns, unique=unique)
        found += engine.read_totals(
            bound_contributions(parse_sql("SELECT SUM(x) AS s FROM t", table), table, Neighbours.ADD_REMOVE)
        )
    assert found[0] == found[1]
    [above] = connection.execute("SELECT SUM(x) FROM t WHERE x > 0").fetchall()[0]
    assert abs(found[0][0][0]) < 2**63 - 1 < above


@pytest.mark.parametrize("begun", [True, False])
def test_the_reason_of_a_failure_is_not_shown(begun: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that were read already are not read again; that memory suffices for no part is only in the owner's log."""

    def rows(self: DuckDB, statement: str) -> Iterator[tuple[Any, ...]]:
        if begun:
            yield (1, "a")
        raise OutOfMemory

    monkeypatch.setattr(DuckDB, "_execute", rows)
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT 1 AS person, 'a' AS dept")
    session = connect(connection, table="t", unit="person", epsilon=1, keys={"dept": ("a",)})
    with pytest.raises(EngineFailed) as failed:
        session.ask("SELECT dept, COUNT(*) AS n FROM t GROUP BY dept", epsilon=1)
    assert type(failed.value) is EngineFailed
    assert "OutOfMemory" not in "".join(traceback.format_exception(failed.value))


def test_progress_goes_on_over_the_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float | None] = []

    class Watched(SmallMemory):
        def _execute(self, statement: str) -> Iterator[tuple[Any, ...]]:
            rows = super()._execute(statement)
            seen.append(self.progress())
            return rows

    class Half:
        def __init__(self, inner: duckdb.DuckDBPyConnection) -> None:
            self.execute, self.sql = inner.execute, inner.sql

        def query_progress(self) -> float:
            return 50.0

    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT range AS person, 'a' AS dept FROM range(9)")
    monkeypatch.setattr(duckdb_engine, "PART_COUNTS", (2,))
    engine = Watched(connection, "t")
    engine.connection = Half(connection)  # type: ignore[assignment]
    assert _totals(engine) == {("a",): (9, 9)}
    assert seen == [0.25, 0.75]
    assert engine.progress() == 0.5
