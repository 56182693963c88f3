"""Two units are never read as one, whatever the source holds and however its cells are spelt.

Every unit here has one row, and a unit counts for one row: a count of all rows is the number of units that are read.
"""

import time
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.engines.duckdb.cells import read_cell
from discreet.engines.duckdb.engine import DuckDB
from discreet.errors import BadParameter, SourceRefused
from discreet.query.schema import Column, Kind, Table
from discreet.session.connect import connect
from discreet.session.session import Session
from tests.support.postgres_server import Server

SPELLINGS = [
    "1", "1.0", "1.4", "1e0", "01", " 1 ", "1 ", " 1", "0x1", "1_000", "1000", "+1", "-1", "-0", "0", "00", "1.", "1e3",
    "9223372036854775808", "99999999999999999999", "١", "one", "NaN", "true", "True", "t", "2024-01-01", "2024-1-1",
    "2024-01-01 00:00", "2024-01-01 00:00:00.0000001", "2024-01-01 00:00:00.0000002", "2024-01-01 00:00+05",
    "2023-12-31 19:00", "2024-01-01T00:00:00Z", "inf", "infinity", "'", "a", "A", "a ", "ä", "a\u0308",
]  # fmt: skip
UNITS = [kind for kind in Kind if kind is not Kind.REAL]


def count(session: Session, query: str = "SELECT COUNT(*) AS n FROM people") -> int:
    """Return the exact count."""
    [(totals, _)] = session.engine.read_totals(session.calibrate(query, epsilon=1).bounded)
    return totals[0]


def policy(kind: Kind) -> Table:
    return Table("people", "id", {"id": Column(kind), "v": Column(Kind.INTEGER).with_bounds(0, 100)})


def write_csv(folder: Path, cells: list[str]) -> Path:
    quoted = [cell.replace('"', '""') for cell in cells]
    (folder / "people.csv").write_text("id,v\n" + "".join(f'"{cell}",1\n' for cell in quoted), encoding="utf-8")
    return folder / "people.csv"


@pytest.mark.parametrize("kind", UNITS)
def test_spellings_in_a_csv_file_are_units_of_their_own(kind: Kind, tmp_path: Path) -> None:
    path = write_csv(tmp_path, SPELLINGS)
    assert count(connect(path, policy=policy(kind), epsilon=1)) == len(SPELLINGS)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text("01e.+-x_ 2", min_size=1, max_size=5), min_size=1, max_size=12, unique=True))
def test_random_spellings_are_units_of_their_own(tmp_path_factory: pytest.TempPathFactory, cells: list[str]) -> None:
    path = write_csv(tmp_path_factory.mktemp("csv"), cells)
    assert count(connect(path, policy=policy(Kind.INTEGER), epsilon=1)) == len(cells)


def test_without_a_policy_spellings_are_units_too(tmp_path: Path) -> None:
    path = write_csv(tmp_path, ["1", *map(str, range(2, 30)), "01", " 1", "+1"])
    assert count(connect(path, unit="id", epsilon=1)) == 32


def test_a_mutant_that_takes_numbers_for_identities_is_found(tmp_path: Path) -> None:
    """The reading as a number is not injective: 1, 01 and +1 are one."""
    path = write_csv(tmp_path, ["1", "01", "+1"])
    session = connect(path, policy=policy(Kind.INTEGER), epsilon=1)
    session.engine.identities = {}  # type: ignore[attr-defined]
    assert count(session) < 3


def test_one_person_moves_a_sum_by_no_more_than_the_sensitivity(tmp_path: Path) -> None:
    """If rows of 1.4 and 1e0 were bounded together with those of 1, removing one unit would move the sum by 196."""
    rows = [("1", 2), ("1.4", 98), ("1e0", 98)]
    found = []
    for people in (rows, rows[:2]):
        (tmp_path / "people.csv").write_text("id,v\n" + "".join(f"{cell},{v}\n" for cell, v in people))
        found.append(
            count(connect(tmp_path / "people.csv", policy=policy(Kind.INTEGER), epsilon=1), "SELECT SUM(v) AS s FROM people")
        )
    assert found[0] - found[1] == 98


CELLS: list[Any] = [
    1, 1.5, 2, "1", "2", "01", " 1", True, False, 0, Decimal("1.5000000000000000000001"), 2**53, 2**53 + 1, 10**30,
    date(2024, 1, 1), datetime(2024, 1, 1), datetime(2024, 1, 1, tzinfo=UTC), pd.Timestamp("2024-01-01 00:00:00.000000001"),
    "2024-01-01", "true", "1.5", "", "\0number:1", "\0text:x", "x", "\ud800", float("inf"), -0.5,
    np.int64(7), np.float64(7.5),
]  # fmt: skip


@pytest.mark.parametrize("kind", UNITS)
def test_objects_of_a_frame_are_units_of_their_own(kind: Kind) -> None:
    frame = pd.DataFrame({"id": pd.Series(CELLS, dtype=object), "v": 1})
    assert count(connect(frame, table="people", policy=policy(kind), epsilon=1)) == len(CELLS)


def test_a_fraction_is_not_rounded_to_another_unit() -> None:
    """DuckDB would read objects, most of them whole numbers, as whole numbers: 1.5 as 2."""
    frame = pd.DataFrame({"id": pd.Series([1, 2, 1.5, 2.5], dtype=object), "v": 1})
    for declared in ({"policy": policy(Kind.INTEGER)}, {"policy": policy(Kind.TEXT)}):
        assert count(connect(frame, table="people", epsilon=1, **declared)) == 4


@pytest.mark.parametrize("kind", ["pandas", "arrow", "parquet", "polars", "duckdb"])
def test_nanoseconds_tell_units_apart(kind: str, tmp_path: Path) -> None:
    table = pa.table({"id": pa.array(range(10), pa.timestamp("ns")), "v": [1] * 10})
    pq.write_table(table, tmp_path / "people.parquet")
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE people AS FROM '{tmp_path}/people.parquet'")
    sources = {
        "pandas": pd.DataFrame({"id": pd.Series(range(10), dtype="datetime64[ns]"), "v": 1}), "arrow": table,
        "parquet": tmp_path / "people.parquet", "polars": pl.from_arrow(table), "duckdb": connection,
    }  # fmt: skip
    session = connect(sources[kind], table="people", unit="id", epsilon=1)
    assert count(session) == 10
    session.engine.identities, session.engine._compiled = {}, {}  # type: ignore[attr-defined]  # the mutant cuts them off
    assert count(session) < 10


def odd_frames() -> list[pd.DataFrame]:
    """The same people, with one more whose id is missing or odd: pandas holds each column in another type."""
    people = [(i, i % 7) for i in range(1, 40) for _ in range(3)]
    more: list[list[tuple[Any, int]]] = [[], [(None, 1)], [("x", 1)], [(1.5, 1)], [(True, 1)]]
    return [pd.DataFrame({"id": [a for a, _ in people + odd], "g": [b for _, b in people + odd]}) for odd in more]


def test_the_groups_that_a_unit_keeps_do_not_depend_on_the_type_of_a_column() -> None:
    """Groups are kept in the order of a hash of the unit's text. If one person's odd id changed the text of every other, all
    units could keep other groups, and the totals would move by far more than one person's contribution."""
    found = []
    for frame in odd_frames():
        frame["g"] = range(len(frame))
        declared = Table(
            "people", "id", {"id": Column(Kind.INTEGER), "g": Column(Kind.INTEGER).with_keys(tuple(range(200)))}
        )
        session = connect(frame, table="people", policy=declared, epsilon=1)
        query = "SELECT g, COUNT(*) AS n FROM people GROUP BY g"
        found.append({keys for _, keys in session.engine.read_totals(session.calibrate(query, epsilon=1).bounded)})
    assert len(found[0]) == 39
    assert all(len(each ^ found[0]) <= 1 for each in found)


VALUES: list[Any] = [0, 1, 2, -7, 1.0, 0.0, 0.5, 1e20, float("inf"), True, False, "1", "x", "0.5", "true", date(2024, 2, 29),
                     datetime(2024, 2, 29, 12, 30, 0, 500_000), "2024-02-29", "2024-02-29 10:00+05"]  # fmt: skip


@pytest.mark.parametrize("kind", list(Kind))
def test_a_cell_means_the_same_in_a_column_of_its_own_type_and_among_objects(kind: Kind) -> None:
    """Each value has a column of its own in two frames, for DuckDB takes longer to start than to read them."""
    values = {f"x{place}": value for place, value in enumerate(VALUES)}
    typed = pd.DataFrame({"id": [1, 2]} | {name: [value, value] for name, value in values.items()})
    odd = {name: pd.Series([value, value, b"odd"], dtype=object) for name, value in values.items()}
    mixed = pd.DataFrame({"id": [1, 2, 3]} | odd)
    kinds = {"id": Kind.INTEGER} | dict.fromkeys(values, kind)
    opened = [DuckDB.open(frame, "people", kinds, "id").connection for frame in (typed, mixed)]
    for name, value in values.items():
        cells = [connection.execute(f"SELECT {name} FROM people").fetchall()[:2] for connection in opened]
        assert len(cells[0]) == 2
        assert cells[0] == cells[1], value


@pytest.mark.parametrize("kind", list(Kind))
def test_a_frame_is_read_by_its_declared_kinds(kind: Kind) -> None:
    """One odd or missing cell changes no column's kind, and refuses no source."""
    for value in (None, "odd", b"odd", [1], 2**70, object()):
        frame = pd.DataFrame({"id": range(4), "x": pd.Series([1, 2, 3, value], dtype=object)})
        declared = Table("people", "id", {"id": Column(Kind.INTEGER), "x": Column(kind)}, unique=True)
        session = connect(frame, table="people", policy=declared, epsilon=1)
        assert session.table.columns["x"].kind is kind
        assert count(session) == 4


NEIGHBOURS: list[tuple[str, Kind, Any]] = [
    ("moments without a zone", Kind.TIMESTAMP, [datetime(2024, 1, 1, 10)]),
    ("moments with nanoseconds", Kind.TIMESTAMP, np.array(["2024-01-01T23:59:59.999999999"], "datetime64[ns]")),
    ("moments with nanoseconds, as days", Kind.DATE, np.array(["2024-01-01T23:59:59.999999999"], "datetime64[ns]")),
    ("moments before 1970", Kind.TIMESTAMP, np.array([-1], "datetime64[ns]")),
    ("moments in a zone", Kind.TIMESTAMP, pd.to_datetime([-1], utc=True, unit="ns")),
    ("moments in a zone, as texts", Kind.TEXT, pd.to_datetime([1], utc=True, unit="ns")),
    ("far years", Kind.TIMESTAMP, np.array(["12020-01-01", "-0900-01-01"], "datetime64[s]")),
    ("numbers beyond 64 bits with a sign", Kind.INTEGER, np.array([2**63, 2**63 + 1], "uint64")),
    ("numbers beyond 64 bits with a sign, as texts", Kind.TEXT, np.array([2**63], "uint64")),
]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
@pytest.mark.parametrize(("kind", "cells"), [each[1:] for each in NEIGHBOURS], ids=[each[0] for each in NEIGHBOURS])
def test_an_odd_cell_changes_no_other(kind: Kind, cells: Any, zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither as a value nor as the unit, and in any time zone of the machine."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        typed = pd.DataFrame({"id": cells, "x": cells})
        odd = pd.concat([typed.astype(object), pd.DataFrame({"id": [b"odd"], "x": [b"odd"]})], ignore_index=True)
        assert str(odd["x"].dtype) == "object"
        read = []
        for frame in (typed, odd):
            engine = DuckDB.open(frame, "people", {"id": kind, "x": kind}, "id")
            identity = engine.identities["id"].unalias().sql("duckdb") if "id" in engine.identities else "id"
            query = f"SELECT x::VARCHAR, {identity}::VARCHAR FROM people"
            read.append(engine.connection.execute(query).fetchall()[: len(typed)])
        assert read[0] == read[1]
        assert all(identity is not None for _, identity in read[0])
    finally:
        monkeypatch.undo()
        time.tzset()


def test_units_finer_than_they_are_read_are_told_apart_or_refused(tmp_path: Path) -> None:
    moments = np.arange(10**18, 10**18 + 5)
    zoned = pd.DataFrame({"id": pd.to_datetime(moments, utc=True).astype("datetime64[ns, UTC]"), "v": 1})
    assert count(connect(zoned, table="people", unit="id", epsilon=1)) == 5
    arrow = pa.table({"id": pa.array(moments, pa.timestamp("ns", "UTC")), "v": [1] * 5})
    for source in (arrow, pl.from_arrow(arrow)):
        assert count(connect(source, table="people", unit="id", epsilon=1)) == 5
        assert count(connect(source, table="people", policy=policy(Kind.TIMESTAMP), epsilon=1)) == 5
    pq.write_table(pa.table({"id": pa.array(moments, pa.timestamp("ns"))}), tmp_path / "old.parquet",
                   use_deprecated_int96_timestamps=True)  # fmt: skip
    days = pa.Array.from_buffers(pa.date64(), 5, [None, pa.py_buffer(np.arange(5).tobytes())])
    for source, table in ((tmp_path / "old.parquet", "old"), (pa.table({"id": days}), "days")):
        with pytest.raises(BadParameter, match="different units could be read as the same"):
            connect(source, table=table, unit="id", epsilon=1)
    encoded = days.dictionary_encode()
    frames = [pa.table({"id": encoded}), *(pd.DataFrame({"id": pd.arrays.ArrowExtensionArray(a)}) for a in (days, encoded))]
    for source in frames:
        with pytest.raises(BadParameter, match="different units could be read as the same"):
            connect(source, table="days", unit="id", epsilon=1)
    large = pd.DataFrame({"id": [2.0**60, 2.0**60 + 512], "v": 1})
    with pytest.raises(SourceRefused, match="floats"):
        connect(large, table="people", policy=policy(Kind.INTEGER), epsilon=1)


ONE, TENTH = np.longdouble(1), np.longdouble("0.1")
NUMBERS: list[list[Any]] = [  # cells of one value in a list
    [1, 1.0, ONE, np.float32(1), Decimal("1"), Decimal("1.0"), Decimal("100e-2")], [0, -0.0, Decimal("-0"), Decimal("0.00")],
    [np.nextafter(ONE, np.longdouble(2))], [np.nextafter(ONE, np.longdouble(0))], [0.1, Decimal("0.1"), Decimal("0.10")],
    [TENTH], [np.nextafter(TENTH, ONE)], [np.longdouble(2) ** 63 + 1, 2**63 + 1, Decimal(2**63 + 1)], [100, Decimal("1e2")],
    [np.longdouble(2) ** -16000], [np.longdouble(2) ** -16001], [-TENTH], [float("inf")],
]  # fmt: skip


def test_numbers_are_one_unit_exactly_if_they_are_equal() -> None:
    texts = [{read_cell(cell) for cell in cells} for cells in NUMBERS]
    assert [len(each) for each in texts] == [1] * len(NUMBERS)
    assert len(set.union(*texts)) == len(NUMBERS)
    cells = [cell for cells in NUMBERS for cell in cells]
    frame = pd.DataFrame({"id": pd.Series(cells, dtype=object), "v": 1})
    distinct = connect(frame, table="people", policy=policy(Kind.INTEGER), epsilon=1)
    assert count(distinct, "SELECT COUNT(DISTINCT id) AS n FROM people") == len(NUMBERS)


class Hostile(str):
    def __str__(self) -> str:
        raise RuntimeError


ODD_OBJECTS: list[Any] = [
    datetime(9999, 12, 31, 23, tzinfo=timezone(-timedelta(hours=5))), pd.Timestamp(np.datetime64("12020-01-01", "s")),
    pd.Timestamp(np.datetime64("-0900-01-01", "s")), Hostile("x"), 10**5000, Decimal("1e999999"), Decimal("NaN"),
    object(), {},
]  # fmt: skip


@pytest.mark.parametrize("cell", ODD_OBJECTS, ids=lambda cell: type(cell).__name__)
def test_no_cell_keeps_a_frame_from_being_opened(cell: Any) -> None:
    frame = pd.DataFrame({"id": range(3), "x": pd.Series([1, 2, cell], dtype=object)})
    for kind in Kind:
        declared = Table("people", "id", {"id": Column(Kind.INTEGER), "x": Column(kind)})
        assert count(connect(frame, table="people", policy=declared, epsilon=1)) == 3
    assert count(connect(frame, table="people", unit="id", epsilon=1)) == 3


def test_columns_of_one_name_are_refused() -> None:
    with pytest.raises(SourceRefused, match="same name"):
        connect(pd.DataFrame([[1, 2]], columns=["id", "id"]), table="people", unit="id", epsilon=1)


def test_the_texts_of_cells() -> None:
    assert read_cell(pd.Timestamp("2024-01-01 10:00:00.123456789")) == ("moment", "2024-01-01 10:00:00.123456789")
    assert read_cell(pd.NaT) == read_cell(pd.NA) == read_cell(None) == read_cell(float("nan")) == (None, None)


def test_a_timestamp_with_an_offset_is_read_in_utc(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("id,t\n1,2024-01-01 10:00+05\n2,2024-01-01 10:00\n3,2024-01-01T10:00:00Z\n")
    columns = {"id": Column(Kind.INTEGER), "t": Column(Kind.TIMESTAMP)}
    engine = connect(tmp_path / "people.csv", policy=Table("people", "id", columns), epsilon=1).engine
    rows = engine.connection.execute("SELECT t FROM people ORDER BY id").fetchall()  # type: ignore[attr-defined]
    assert rows == [(datetime(2024, 1, 1, 5),), (datetime(2024, 1, 1, 10),), (datetime(2024, 1, 1, 10),)]


def test_a_padded_text_is_no_unit_in_postgresql(postgres: Server) -> None:
    postgres.run("DROP TABLE IF EXISTS chars", "CREATE TABLE chars (id bpchar, c character(3), t text, x int)",
                 "INSERT INTO chars VALUES ('a', 'a', 'a', 1), ('a ', 'a ', 'a ', 1)")  # fmt: skip
    for unit in ("id", "c"):
        with pytest.raises(BadParameter, match="different units could be read as the same"):
            connect(postgres.reader, table="chars", unit=unit, epsilon=1)
    assert count(connect(postgres.reader, table="chars", unit="t", epsilon=1), "SELECT COUNT(*) AS n FROM chars") == 2
