"""Two units are never read as one, whatever the source holds and however its cells are spelt.

Every unit here has one row, and a unit counts for one row: a count of all rows is the number of units that are told apart.
"""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.engines.duckdb import DuckDB
from discreet.engines.frames import read_cell
from discreet.errors import BadParameter
from discreet.opening import connect
from discreet.query.table import Column, Kind, Table
from discreet.session import Session
from tests.engines.servers import Server

SPELLINGS = [
    "1", "1.0", "1.4", "1e0", "01", " 1 ", "1 ", " 1", "0x1", "1_000", "1000", "+1", "-1", "-0", "0", "00", "1.", "1e3",
    "9223372036854775808", "99999999999999999999", "١", "one", "NaN", "true", "True", "t", "2024-01-01", "2024-1-1",
    "2024-01-01 00:00", "2024-01-01 00:00:00.0000001", "2024-01-01 00:00:00.0000002", "2024-01-01 00:00+05",
    "2023-12-31 19:00", "2024-01-01T00:00:00Z", "inf", "infinity", "'", "a", "A", "a ", "ä", "a\u0308",
]  # fmt: skip
UNITS = [kind for kind in Kind if kind is not Kind.REAL]


def count(session: Session, question: str = "SELECT COUNT(*) AS n FROM people") -> int:
    """The exact count behind the noise."""
    [(totals, _)] = session.engine.totals(session.measurement(question, epsilon=1).bounded)
    return totals[0]


def policy(kind: Kind) -> Table:
    return Table("people", "id", {"id": Column(kind), "v": Column(Kind.INTEGER).within(0, 100)})


def written(folder: Path, cells: list[str]) -> Path:
    quoted = [cell.replace('"', '""') for cell in cells]
    (folder / "people.csv").write_text("id,v\n" + "".join(f'"{cell}",1\n' for cell in quoted), encoding="utf-8")
    return folder / "people.csv"


@pytest.mark.parametrize("kind", UNITS)
def test_spellings_in_a_csv_file_are_units_of_their_own(kind: Kind, tmp_path: Path) -> None:
    path = written(tmp_path, SPELLINGS)
    assert count(connect(path, policy=policy(kind), epsilon=1)) == len(SPELLINGS)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text("01e.+-x_ 2", min_size=1, max_size=5), min_size=1, max_size=12, unique=True))
def test_random_spellings_are_units_of_their_own(tmp_path_factory: pytest.TempPathFactory, cells: list[str]) -> None:
    path = written(tmp_path_factory.mktemp("csv"), cells)
    assert count(connect(path, policy=policy(Kind.INTEGER), epsilon=1)) == len(cells)


def test_without_a_policy_spellings_are_units_too(tmp_path: Path) -> None:
    path = written(tmp_path, ["1", *map(str, range(2, 30)), "01", " 1", "+1"])
    assert count(connect(path, unit="id", epsilon=1)) == 32


def test_a_mutant_that_takes_numbers_for_identities_is_found(tmp_path: Path) -> None:
    """The reading as a number is not injective: 1, 01 and +1 are one."""
    path = written(tmp_path, ["1", "01", "+1"])
    session = connect(path, policy=policy(Kind.INTEGER), epsilon=1)
    session.engine.identities = None  # type: ignore[attr-defined]
    assert count(session) < 3


def test_one_person_moves_a_sum_by_what_is_stated_and_no_more(tmp_path: Path) -> None:
    """Rows of 1.4 and of 1e0 were bounded together with those of 1: removing one unit then moved the sum by 196."""
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
    """DuckDB reads objects of which most are whole as whole numbers: 1.5 became 2."""
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
    with patch.object(DuckDB, "_identity", lambda self, unit: None):  # the mutant cuts them off
        assert count(session) < 10


def odd_frames() -> list[pd.DataFrame]:
    """The same people, with one more whose id is missing or odd: pandas holds each column in another type."""
    people = [(i, i % 7) for i in range(1, 40) for _ in range(3)]
    more: list[list[tuple[Any, int]]] = [[], [(None, 1)], [("x", 1)], [(1.5, 1)], [(True, 1)]]
    return [pd.DataFrame({"id": [a for a, _ in people + odd], "g": [b for _, b in people + odd]}) for odd in more]


def test_the_choice_of_a_units_groups_does_not_depend_on_the_type_of_a_column() -> None:
    """The order of the hash is that of a unit's text. If one person's odd id changed the text of every other, all of them
    could choose other groups, and the totals move by far more than one person's share."""
    found = []
    for frame in odd_frames():
        frame["g"] = range(len(frame))
        declared = Table("people", "id", {"id": Column(Kind.INTEGER), "g": Column(Kind.INTEGER).shown_as(tuple(range(200)))})
        session = connect(frame, table="people", policy=declared, epsilon=1)
        question = "SELECT g, COUNT(*) AS n FROM people GROUP BY g"
        found.append({keys for _, keys in session.engine.totals(session.measurement(question, epsilon=1).bounded)})
    assert len(found[0]) == 39
    assert all(len(each ^ found[0]) <= 1 for each in found)


VALUES: list[Any] = [0, 1, 2, -7, 1.0, 0.0, 0.5, 1e20, float("inf"), True, False, "1", "x", "0.5", "true", date(2024, 2, 29),
                     datetime(2024, 2, 29, 12, 30, 0, 500_000), "2024-02-29", "2024-02-29 10:00+05"]  # fmt: skip


@pytest.mark.parametrize("kind", list(Kind))
def test_a_cell_means_the_same_in_a_column_of_its_own_type_and_among_objects(kind: Kind) -> None:
    for value in VALUES:
        typed = pd.DataFrame({"id": [1, 2], "x": [value, value]})
        mixed = pd.DataFrame({"id": [1, 2, 3], "x": pd.Series([value, value, b"odd"], dtype=object)})
        read = [
            DuckDB.open(frame, "people", {"id": Kind.INTEGER, "x": kind}, "id").connection.execute("SELECT x FROM people")
            for frame in (typed, mixed)
        ]
        cells = [result.fetchall()[:2] for result in read]
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
        with pytest.raises(BadParameter, match="two units could be read as one"):
            connect(postgres.reader, table="chars", unit=unit, epsilon=1)
    assert count(connect(postgres.reader, table="chars", unit="t", epsilon=1), "SELECT COUNT(*) AS n FROM chars") == 2
