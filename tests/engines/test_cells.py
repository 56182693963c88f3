"""Engines read the cells of a tabulation: the same as plain Python, in blocks, in order, and without a word about values."""

import sys
import threading
from functools import partial
from typing import Any

import duckdb
import numpy
import pytest

from discreet.engines import base
from discreet.engines.base import Cancellation, Engine, OutOfResources, SqlEngine, watch_cancellation
from discreet.engines.duckdb import engine as duckdb_engine
from discreet.engines.duckdb.engine import DuckDB
from discreet.errors import EngineFailed
from discreet.query.cells import CellBlock, bound_cells
from discreet.query.parser import parse_sql
from discreet.query.schema import Column, Kind, Table
from discreet.units import Neighbours
from tests.support.postgres_server import Server
from tests.support.random_cells import (
    by_engine,
    count_in_python,
    count_with,
    find_broken_tabulations,
    find_cell_differences,
    keyed_worlds,
)
from tests.support.random_tables import World, stored, with_row_units, with_several_columns
from tests.support.rounds import every_nth_by_day

SEEDS = range(61_000, 61_030)


@pytest.fixture(params=["duckdb", "postgres"])
def open_world(request: pytest.FixtureRequest) -> Any:
    """Opens a random table in each engine. Spark's is beside its one JVM."""
    if request.param == "duckdb":
        return partial(stored, connection=duckdb.connect())
    return request.getfixturevalue("postgres").open_world


@pytest.mark.parametrize("start", every_nth_by_day(range(2), 2))
@pytest.mark.parametrize("declare", [None, with_row_units, with_several_columns])
def test_cells_are_those_of_plain_python(open_world: Any, declare: Any, start: int) -> None:
    options = {} if declare is None else {"declare": declare}
    assert find_cell_differences(open_world, SEEDS[start::2], 4, **options) == []


@pytest.mark.parametrize("start", every_nth_by_day(range(2), 2))
def test_one_unit_moves_all_tables_by_no_more_than_stated(open_world: Any, start: int) -> None:
    assert find_broken_tabulations(by_engine(open_world), SEEDS[start::2], 3) == []


# -- keys of every kind, few and many, with NULL at any place --------------------------------------------------------------


def test_codes_are_the_places_of_declared_keys(open_world: Any) -> None:
    for name, place, bounded in keyed_worlds():
        assert count_with(open_world(place), bounded, 1) == count_in_python(bounded, place.rows), (name, bounded.keys)


def test_the_ends_of_a_small_type_are_keys(postgres: Server) -> None:
    keys = tuple(range(-128, 128))
    table = Table("people", "uid", {"uid": Column(Kind.INTEGER), "k": Column(Kind.INTEGER, keys=keys)}, unique=True)
    rows = tuple({"uid": i, "k": key} for i, key in enumerate(keys))
    bounded = bound_cells(parse_sql("SELECT k, COUNT(*) AS n FROM people GROUP BY k", table), table, Neighbours.REPLACE)
    for engine in (
        stored(World(table, rows, {"uid": "BIGINT", "k": "TINYINT"}), duckdb.connect()),
        postgres.open_world(World(table, rows, {"uid": "BIGINT", "k": "SMALLINT"})),
    ):
        assert count_with(engine, bounded, 1) == {(i,): 1 for i in range(256)}


@pytest.mark.parametrize("unique", [True, False])
@pytest.mark.parametrize("kind", ["integer", "text"])
def test_a_hash_tells_which_units_are_in_a_cell(open_world: Any, unique: bool, kind: str) -> None:
    """Two units that change places leave all totals as they are, and change the hashes of their cells alone."""
    column, stored_as = (Column(Kind.INTEGER), "BIGINT") if kind == "integer" else (Column(Kind.TEXT), "VARCHAR")
    table = Table("people", "uid", {"uid": column, "k": Column(Kind.INTEGER, keys=(0, 1, 2))}, unique=unique)
    bounded = bound_cells(parse_sql("SELECT k, COUNT(*) AS n FROM people GROUP BY k", table), table, Neighbours.ADD_REMOVE)

    def read(*keys: int, reverse: bool = False) -> list[tuple[int, int, int]]:
        rows = [{"uid": i if kind == "integer" else f"unit {i}", "k": key} for i, key in enumerate(keys)]
        world = World(table, tuple(rows[::-1] if reverse else rows), {"uid": stored_as, "k": "BIGINT"})
        engine = open_world(world)
        found = [(b.codes, b.counts, b.units) for b in engine.read_cells(bounded, ordered_columns=1, hash_units=True)]
        codes, counts, units = (numpy.concatenate(each) for each in zip(*found, strict=True))
        return [*zip(codes[:, 0].tolist(), counts.tolist(), units.tolist(), strict=True)]

    first = read(0, 1, 2, 0, 1)
    assert first == read(0, 1, 2, 0, 1, reverse=True)
    swapped = read(1, 0, 2, 0, 1)
    assert [each[:2] for each in swapped] == [each[:2] for each in first]
    assert [one[2] == other[2] for one, other in zip(first, swapped, strict=True)] == [False, False, True]


def test_a_collation_merges_no_cells() -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE people (uid BIGINT, k VARCHAR COLLATE nocase)")
    connection.execute("INSERT INTO people VALUES (1, 'sales'), (2, 'SALES')")
    for keys in (("sales",), ("sales", *"abcdefghi")):
        table = Table("people", "uid", {"uid": Column(Kind.INTEGER), "k": Column(Kind.TEXT, keys=keys)})
        query = parse_sql("SELECT k, COUNT(*) AS n FROM people GROUP BY k", table)
        assert count_with(DuckDB(connection, "people"), bound_cells(query, table, Neighbours.ADD_REMOVE)) == {(0,): 1}


# -- many cells ------------------------------------------------------------------------------------------------------------

CODES = tuple(f"{i:06d}" for i in range(20_000))
MANY = Table(
    "people",
    "uid",
    {"uid": Column(Kind.INTEGER), "geo": Column(Kind.TEXT, keys=CODES), "age": Column(Kind.INTEGER, keys=tuple(range(116)))},
    max_groups=2,
    max_rows=2,
)
BY_BOTH = "SELECT geo, age, COUNT(*) AS n FROM people GROUP BY ROLLUP(geo, age)"


def many_people() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE people AS SELECT i % 150000 AS uid, lpad(CAST(hash(i) % 20000 AS VARCHAR), 6, '0') AS geo, "
        "hash(i + 1) % 116 AS age FROM range(250000) t(i)"
    )
    return connection


def read_all(engine: Engine, ordered_columns: int) -> list[CellBlock]:
    bounded = bound_cells(parse_sql(BY_BOTH, MANY), MANY, Neighbours.ADD_REMOVE)
    return [*engine.read_cells(bounded, ordered_columns=ordered_columns)]


def test_blocks_are_short_and_in_order() -> None:
    engine = DuckDB(many_people(), "people")
    blocks = read_all(engine, 2)
    assert len(blocks) > 1
    assert max(map(len, blocks)) <= base.BLOCK
    codes, counts = numpy.concatenate([b.codes for b in blocks]), numpy.concatenate([b.counts for b in blocks])
    places = codes[:, 0] * 116 + codes[:, 1]
    assert (numpy.diff(places) > 0).all()
    assert counts.sum() == 250_000
    plain = read_all(engine, 0)
    assert {*places.tolist()} == {p for b in plain for p in (b.codes[:, 0] * 116 + b.codes[:, 1]).tolist()}


def test_rows_are_read_where_arrow_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = DuckDB(many_people(), "people")
    with_arrow = read_all(engine, 2)
    monkeypatch.setattr(duckdb_engine, "find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    rows = read_all(engine, 2)
    for name in ("codes", "counts"):
        first, second = (numpy.concatenate([getattr(b, name) for b in blocks]) for blocks in (with_arrow, rows))
        assert (first == second).all()


def test_an_abandoned_reading_leaves_the_connection_free() -> None:
    engine = DuckDB(many_people(), "people")
    bounded = bound_cells(parse_sql(BY_BOTH, MANY), MANY, Neighbours.ADD_REMOVE)
    reading = engine.read_cells(bounded)
    next(reading)
    del reading
    assert sum(block.counts.sum() for block in engine.read_cells(bounded)) == 250_000


# -- failures --------------------------------------------------------------------------------------------------------------

LATE = (
    "SELECT CASE WHEN i = 900000 THEN CAST('Mr ' || 'Smith' || i AS INT) ELSE 1 END AS total0, i AS key0 "
    "FROM range(1000000) t(i)"
)
EARLY = "SELECT CAST(x AS INT) AS total0, 0 AS key0 FROM (VALUES ('Mr Smith')) t(x)"


@pytest.mark.parametrize("statement", [EARLY, LATE])
def test_a_failure_is_one_constant_message(statement: str, caplog: pytest.LogCaptureFixture) -> None:
    """The statement fails before the first block, or after it, where Arrow raises an error of its own."""
    engine = DuckDB(many_people(), "people")
    with pytest.raises(EngineFailed) as failed:
        for _ in engine._execute_blocks(statement, 1):
            pass
    assert not isinstance(failed.value, OutOfResources)
    assert str(failed.value) == str(EngineFailed())
    assert failed.value.__cause__ is None
    assert "Smith" in caplog.text


ENDLESS = {
    "duckdb": "SELECT a.i AS total0, b.i AS key0 FROM range(1000000) a(i), range(1000000) b(i)",
    "postgres": "SELECT a AS total0, b AS key0 FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b",
}


@pytest.mark.parametrize("name", ENDLESS)
def test_another_thread_ends_the_reading_of_blocks(name: str, request: pytest.FixtureRequest) -> None:
    if name == "duckdb":
        engine: Any = DuckDB(many_people(), "people")
    else:
        server: Server = request.getfixturevalue("postgres")
        server.create_people(3)
        engine = base_engine(server)
    cancellation, begun = Cancellation(), threading.Event()

    def cancel() -> None:
        begun.wait(60)
        assert cancellation.cancel()

    thread = threading.Thread(target=cancel)
    thread.start()
    with pytest.raises(OutOfResources), cancellation.allow(), engine.lock, watch_cancellation(engine):  # noqa: PT012
        for _ in engine._execute_blocks(ENDLESS[name], 1):
            begun.set()
    thread.join()
    assert [*engine._execute("SELECT 1")] == [(1,)]


def base_engine(server: Server) -> SqlEngine:
    from discreet.engines.postgres import Postgres

    return Postgres.open(server.reader, "people")


def test_too_little_memory_is_no_failure_of_the_rows() -> None:
    connection = many_people()
    connection.execute("SET memory_limit = '20MB'")
    connection.execute("SET max_temp_directory_size = '1MB'")
    with pytest.raises(OutOfResources):
        read_all(DuckDB(connection, "people"), 2)
