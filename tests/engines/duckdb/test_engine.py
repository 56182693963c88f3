"""DuckDB: which sources it opens, how types are read, and what its locked connection can no longer do."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from discreet.engines.duckdb.engine import DuckDB
from discreet.errors import SourceRefused
from discreet.query.contribution import BoundedQuery, bound_contributions
from discreet.query.parser import parse_sql
from discreet.query.schema import Column, Kind, Table
from discreet.session.connect import connect
from discreet.units import Neighbours


def count_rows(engine: DuckDB, unit: str = "uid") -> int:
    table = Table(engine.table, unit, engine.describe_columns(), max_rows=1000)
    query = bound_contributions(parse_sql(f'SELECT COUNT(*) FROM "{engine.table}"', table), table, Neighbours.ADD_REMOVE)
    [(totals, _)] = engine.read_totals(query)
    return totals[0]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("my-people", "my-people-2"):
        duckdb.sql("SELECT range AS uid, 'a' AS dept FROM range(10)").write_parquet(str(tmp_path / f"{name}.parquet"))
        duckdb.sql("SELECT range AS uid, 'a' AS dept FROM range(10)").write_csv(str(tmp_path / f"{name}.csv"))
    return tmp_path


FILES: dict[str, tuple[str, int]] = {
    "csv": ("my-people.csv", 10),
    "parquet": ("my-people.parquet", 10),
    "glob": ("*.parquet", 20),
    "csv glob": ("*.csv", 20),
}


@pytest.mark.parametrize("case", FILES)
def test_files_are_read_and_nothing_else_is_in_reach(case: str, folder: Path) -> None:
    path, rows = FILES[case]
    engine = DuckDB.open(folder / path, "people" if "*" in path else None)
    assert count_rows(engine) == rows
    (folder / "secret.csv").write_text("x\n1\n")
    for escape in (
        f"SELECT * FROM read_csv('{folder / 'secret.csv'}')",
        f"COPY (SELECT 1) TO '{folder / 'out.csv'}'",
        f"ATTACH '{folder / 'other.db'}'",
        "SET enable_external_access = true",
        "SET lock_configuration = false",
        "INSTALL httpfs",
    ):
        with pytest.raises(duckdb.Error):
            engine.connection.execute(escape)


def test_frames_and_databases_are_locked_too(tmp_path: Path) -> None:
    frame = duckdb.sql("SELECT range AS uid FROM range(7)").pl()
    duckdb.connect(tmp_path / "a.duckdb").execute("CREATE TABLE kept AS SELECT range AS uid FROM range(7)").close()
    for engine in (DuckDB.open(frame, "pairs"), DuckDB.open(tmp_path / "a.duckdb", "kept")):
        assert count_rows(engine) == 7
        with pytest.raises(duckdb.Error):
            engine.connection.execute("SET threads = 1")


@pytest.mark.parametrize(
    "source",
    ["missing.csv", "missing.parquet", "missing.duckdb", "x.txt", "x", 5, object(), {"uid": np.arange(3)}, np.arange(3)],
)
def test_other_objects_are_refused(source: Any, tmp_path: Path) -> None:
    with pytest.raises(SourceRefused):
        DuckDB.open(tmp_path / source if isinstance(source, str) else source, "people")


class Subclass(pd.DataFrame):  # as geopandas has one
    """A frame of a class that is not from pandas."""


@pytest.mark.parametrize("kind", [pd.DataFrame, Subclass])
def test_a_pandas_frame_of_any_class_is_read_cell_by_cell(kind: Callable[[Any], Any]) -> None:
    """DuckDB would infer the type of a column of objects from its values: one text would make every number a NULL."""
    kinds = {"uid": Kind.INTEGER, "value": Kind.INTEGER}
    for added in ([], ["a"], [True], [float("inf")]):
        values = [7.0] * 50 + added
        frame = kind({"uid": range(len(values)), "value": pd.Series(values, dtype=object)})
        engine = DuckDB.open(frame, "people", kinds)
        rows = engine.connection.execute("SELECT value FROM people ORDER BY uid LIMIT 50").fetchall()
        assert rows == [(7,)] * 50, added


def test_a_line_that_does_not_parse_is_found_on_opening(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("uid,age\n" + "1,2\n" * 30_000 + "1,2,secret\n")
    with pytest.raises(SourceRefused) as refusal:
        DuckDB.open(tmp_path / "people.csv")
    assert "secret" not in str(refusal.value)


def test_unusual_types_are_read_as_usual_ones() -> None:
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE people AS SELECT 1 AS uid, "
        "'00000000-0000-0000-0000-000000000001'::UUID AS id, 'a'::ENUM('a', 'b') AS dept, "
        "1.5::DECIMAL(9,2) AS pay, 7::HUGEINT AS huge, 7::UBIGINT AS big, "
        "TIMESTAMP_NS '2024-01-01' AS at, [1] AS list, 1::UHUGEINT AS no"
    )
    engine = DuckDB(connection, "people")
    kinds = {name: column.kind for name, column in engine.describe_columns().items()}
    assert kinds == {
        "uid": Kind.INTEGER, "id": Kind.TEXT, "dept": Kind.TEXT, "pay": Kind.REAL, "huge": Kind.INTEGER, "big": Kind.INTEGER,
        "at": Kind.TIMESTAMP,
    }  # fmt: skip
    table = Table("people", "uid", engine.describe_columns())
    query = (
        "SELECT COUNT(*) FROM people WHERE id = 'no uuid' OR dept = 'c' OR (pay = 1.5 AND at >= '2023-01-01' AND huge = 7)"
    )
    assert list(engine.read_totals(bound_contributions(parse_sql(query, table), table, Neighbours.ADD_REMOVE))) == [
        ((1,), ())
    ]


def test_totals_saturate_instead_of_overflowing() -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE people AS SELECT range AS uid, 9000000000000000::BIGINT AS x FROM range(200000)")
    engine = DuckDB(connection, "people")
    columns = engine.describe_columns() | {"x": engine.describe_columns()["x"].with_bounds(0, 2**51 - 1)}
    table = Table("people", "uid", columns, max_rows=2000)
    [(totals, _)] = engine.read_totals(
        bound_contributions(parse_sql("SELECT SUM(x) FROM people", table), table, Neighbours.ADD_REMOVE)
    )
    assert totals == (2**63 - 1,)


def test_dates_that_python_cannot_hold_are_missing() -> None:
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE people AS SELECT * FROM "
        "(VALUES (1, DATE 'infinity'), (2, DATE '-infinity'), (3, DATE '0044-03-15 (BC)')) t(uid, day)"
    )
    engine = DuckDB(connection, "people")
    table = Table("people", "uid", engine.describe_columns())
    query = bound_contributions(
        parse_sql("SELECT day, COUNT(*) FROM people GROUP BY day", table), table, Neighbours.ADD_REMOVE
    )
    assert list(engine.read_totals(query)) == [((3, 3), (None,))]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_a_moment_is_read_in_utc(zone: str) -> None:
    """The zone of the connection makes no difference; a cast would follow it."""
    connection = duckdb.connect()
    connection.execute(f"SET TimeZone = '{zone}'")
    moments = "'2024-03-31 02:30:00+02', 'infinity', '-infinity', NULL, '0001-01-01 00:00:00+00', '9999-12-31 23:59:59.5+00'"
    connection.execute(f"CREATE TABLE t AS SELECT uid, z::TIMESTAMPTZ AS z FROM "
                       f"(SELECT unnest([{moments}]) AS z, unnest(range(6)) AS uid)")  # fmt: skip
    engine = DuckDB(connection, "t")
    keys = {keys[0] for _, keys in engine.read_totals(bound("SELECT z, COUNT(*) AS n FROM t GROUP BY z"))}
    assert keys == {
        datetime(2024, 3, 31, 0, 30), None, datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 500_000)
    }  # fmt: skip
    [(totals, _)] = engine.read_totals(bound("SELECT COUNT(z) AS n FROM t"))
    assert totals == (5,)
    assert [
        totals for totals, _ in engine.read_totals(bound("SELECT COUNT(*) AS n FROM t WHERE z < '2024-03-31 00:31:00'"))
    ] == [(3,)]
    cast = connection.execute("SELECT z::TIMESTAMP FROM t WHERE uid = 0").fetchone()
    assert (cast == (datetime(2024, 3, 31, 0, 30),)) == (zone == "UTC")


def bound(sql: str) -> BoundedQuery:
    table = Table("t", "uid", {"uid": Column(Kind.INTEGER), "z": Column(Kind.TIMESTAMP)}, unique=True)
    return bound_contributions(parse_sql(sql, table), table, Neighbours.ADD_REMOVE)


def test_a_folder_of_parquet_files_is_a_source(tmp_path: Path) -> None:
    for region, ids in (("north", [1, 2]), ("south", [3])):
        part = tmp_path / "people" / f"region={region}"
        part.mkdir(parents=True)
        pq.write_table(pa.table({"id": ids}), part / "part-0.parquet")
    (tmp_path / "people" / "_SUCCESS").touch()
    (tmp_path / "odd [1]*").mkdir()
    pq.write_table(pa.table({"id": [1, 2, 3]}), tmp_path / "odd [1]*" / "p.parquet")
    (tmp_path / "people").rename(tmp_path / "people.parquet")  # as Spark calls what it writes
    (tmp_path / "plain").symlink_to("people.parquet")
    for folder, name, columns in (
        ("people.parquet", "people", ["id", "region"]),
        ("plain/", "people", ["id", "region"]),
        ("odd [1]*", "odd [1]*", ["id"]),
    ):
        session = connect(f"{tmp_path}/{folder}", unit="id", epsilon=10**7, unique=True)
        assert (session.table.name, list(session.table.columns)) == (name, columns)
        [(_, [cell])] = session.ask(f'SELECT COUNT(*) AS n FROM "{name}"', epsilon=10**6).rows
        assert cell.value == 3
    assert connect(tmp_path / "people.parquet", table="all", unit="id", epsilon=1).table.name == "all"
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceRefused, match=r"'.*/empty' holds no Parquet file"):
        connect(tmp_path / "empty", unit="id", epsilon=1)
    with pytest.raises(SourceRefused, match=r"there is no such file: '.*/absent'"):
        connect(tmp_path / "absent", unit="id", epsilon=1)
    with pytest.raises(SourceRefused, match=r"there is no such file: '.*/gone\.duckdb'"):
        connect(tmp_path / "gone.duckdb", unit="id", epsilon=1)


def test_a_lazy_frame_is_read_without_a_warning() -> None:
    assert list(DuckDB.open(pl.LazyFrame({"id": [1], "pay": [2.5]}), "people", unit="id").describe_columns()) == [
        "id",
        "pay",
    ]


@pytest.mark.parametrize("make", [lambda table: table, lambda table: table.to_pandas(), lambda table: table.to_reader()])
def test_a_frame_with_two_columns_of_one_name_is_refused(make: Callable[[pa.Table], Any]) -> None:
    with pytest.raises(SourceRefused, match="two columns of this frame have the same name"):
        DuckDB.open(make(pa.table([[1], [2]], names=["id", "id"])), "people")
