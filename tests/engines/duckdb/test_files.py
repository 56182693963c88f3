"""A CSV file with declared columns: a cell is read as the kind of its column, and nothing is inferred."""

from datetime import date, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from discreet.engines.duckdb.engine import DuckDB
from discreet.errors import BadParameter, SourceRefused
from discreet.query.schema import Column, Kind, Table
from discreet.session.connect import connect

KINDS = {
    "id": Kind.INTEGER, "name": Kind.TEXT, "pay": Kind.REAL, "ok": Kind.BOOLEAN, "day": Kind.DATE, "at": Kind.TIMESTAMP,
}  # fmt: skip


def read_cells(folder: Path, text: str, kinds: dict[str, Kind] = KINDS, name: str = "people.csv") -> list[tuple[Any, ...]]:
    (folder / name).write_bytes(text.encode())
    return DuckDB.open(folder / name, "people", kinds).connection.execute("FROM people").fetchall()


HEADER = "id,name,pay,ok,day,at\n"


@pytest.mark.parametrize(
    ("line", "cells"),
    [
        (
            "1,a,1.5,true,2024-02-29,2024-02-29 12:30:00",
            (1, "a", 1.5, True, date(2024, 2, 29), datetime(2024, 2, 29, 12, 30)),
        ),
        ("x,y,z,maybe,2024-13-01,soon", (None, "y", None, None, None, None)),
        (",,,,,", (None,) * 6),
        ('"","","","","",""', (None,) * 6),
        ('"7","a,b",-0.5,f,"2024-01-01","2024-01-01"', (7, "a,b", -0.5, False, date(2024, 1, 1), datetime(2024, 1, 1))),
        ('99999999999999999999,"say ""hi""",1e999,1,,', (None, 'say "hi"', float("inf"), True, None, None)),
        ('3,"two\nlines",,,,', (3, "two\nlines", None, None, None, None)),
        ("4,NULL,,,,", (4, "NULL", None, None, None, None)),
        ("5,007,,,,", (5, "007", None, None, None, None)),
        ("6,ÅÄö😀 #x -- ; | ',,,,", (6, "ÅÄö😀 #x -- ; | '", None, None, None, None)),
    ],
)
def test_cells(line: str, cells: tuple[Any, ...], tmp_path: Path) -> None:
    assert read_cells(tmp_path, HEADER + line + "\n") == [cells]


def test_what_a_cell_means_depends_on_that_cell_alone(tmp_path: Path) -> None:
    """The same row among others of every sort. The mutant, which infers types, reads it differently."""
    others = ["", "x,y,z,w,v,u\n", "1,2,3,4,5,6\n" * 30_000, '"a;b","c\td",,,,\n' * 50]
    line = "8,0012,5,1,2024-01-01,2024-01-01\n"
    found = {read_cells(tmp_path, HEADER + before + line)[-1] for before in others}
    assert found == {(8, "0012", 5.0, True, date(2024, 1, 1), datetime(2024, 1, 1))}
    inferred = set()
    for before in others:
        (tmp_path / "people.csv").write_text(HEADER + before + line)
        inferred.add(str(duckdb.sql(f"FROM read_csv('{tmp_path}/people.csv', header = true)").types))
    assert len(inferred) > 1


@pytest.mark.parametrize(
    "text",
    [
        "id;name\n1;a,b\n2;c\n",
        "id\tname\n1\ta,b\n2\tc\n",
        "id|name\r\n1|a,b\r\n2|c",
        '\ufeff"id","name"\n1,"a,b"\n2,c\n',
        'name,extra,id\n"a,b",5,1\nc,,2\n',
        'name,extra,extra,,id\n"a,b",5,,,1\nc,,,,2\n',
    ],
)
def test_headers_and_delimiters(text: str, tmp_path: Path) -> None:
    rows = read_cells(tmp_path, text, {"id": Kind.INTEGER, "name": Kind.TEXT})
    assert {frozenset(row) for row in rows} == {frozenset({1, "a,b"}), frozenset({2, "c"})}


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "id,id\n1,2\n", "id,name\n1\n", "id,name\n1,2,3\n", 'id,name\n1,"a\n'])
def test_files_that_do_not_fit_are_refused_on_opening(text: str, tmp_path: Path) -> None:
    with pytest.raises(SourceRefused):
        read_cells(tmp_path, text)


def test_several_files_have_one_header(tmp_path: Path) -> None:
    for name, text in (("a.csv", "id,name\n1,a\n"), ("b.csv", "id,name\n2,b\n")):
        (tmp_path / name).write_text(text)
    kinds = {"id": Kind.INTEGER, "name": Kind.TEXT}
    engine = DuckDB.open(str(tmp_path / "*.csv"), "people", kinds)
    assert sorted(engine.connection.execute("FROM people").fetchall()) == [(1, "a"), (2, "b")]
    (tmp_path / "c.csv").write_text("name,id\nc,3\n")
    with pytest.raises(SourceRefused, match="different headers"):
        DuckDB.open(str(tmp_path / "*.csv"), "people", kinds)


def test_a_session_with_a_policy_reads_what_was_declared(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("id,zip,age\n1,01234,5\n2,01234,old\n3,9,7\n")
    columns = {"id": Column(Kind.INTEGER), "zip": Column(Kind.TEXT).with_keys(("01234",)), "age": Column(Kind.INTEGER)}
    policy = Table("people", "id", columns, unique=True)
    session = connect(tmp_path / "people.csv", policy=policy, epsilon=10**7)
    answer = session.ask("SELECT zip, COUNT(*) AS n, COUNT(age) AS a FROM people GROUP BY zip", epsilon=10**6)
    assert [(keys, [cell.value for cell in row]) for keys, row in answer.rows] == [(("01234",), [2, 1])]
    with pytest.raises(BadParameter, match="no such column"):
        connect(tmp_path / "people.csv", policy=Table("people", "id", {**columns, "x": Column(Kind.TEXT)}), epsilon=1)


@pytest.mark.parametrize("kinds", [None, {"id": Kind.INTEGER}])
@pytest.mark.parametrize("text", ["", "\n\n", " \n", "\ufeff"])
def test_an_empty_file_is_refused_as_empty(text: str, kinds: dict[str, Kind] | None, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text(text)
    with pytest.raises(SourceRefused, match="this file is empty: it has no header"):
        DuckDB.open(tmp_path / "people.csv", "people", kinds)
    (tmp_path / "more.csv").write_text("id\n1\n")
    with pytest.raises(SourceRefused, match="one of these files is empty: it has no header"):
        DuckDB.open(str(tmp_path / "*.csv"), "people", kinds)


@pytest.mark.parametrize("kinds", [None, {"id": Kind.INTEGER}])
@pytest.mark.parametrize("text", ["id,id\n1,2\n", "name;id;id\na;1;2\n", "id,pay,id\n", '"id","id"\n1,2\n'])
def test_two_columns_of_one_name_are_refused(text: str, kinds: dict[str, Kind] | None, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text(text)
    with pytest.raises(SourceRefused, match="two columns of this file are called id"):
        DuckDB.open(tmp_path / "people.csv", "people", kinds)


@pytest.mark.parametrize("kinds", [None, {"id": Kind.INTEGER, "pay": Kind.INTEGER, "ID": Kind.INTEGER}])
@pytest.mark.parametrize("text", ["id,ID\n1,2\n", "id;pay;ID\n1;2;3\n", '"id","ID"\n1,2\n'])
def test_two_columns_that_differ_in_case_are_refused(text: str, kinds: dict[str, Kind] | None, tmp_path: Path) -> None:
    """DuckDB would call the second ID_1."""
    (tmp_path / "people.csv").write_text(text)
    with pytest.raises(SourceRefused, match="the names of the columns id and ID differ only in the case"):
        DuckDB.open(tmp_path / "people.csv", "people", kinds)


def test_names_that_duckdb_tells_apart_are_read(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("É,é\n1,2\n3,4\n")
    assert list(DuckDB.open(tmp_path / "people.csv", "people").describe_columns()) == ["É", "é"]
    (tmp_path / "people.csv").write_text("id,ID\n1,2\n")  # a policy says which of the two is read
    assert list(DuckDB.open(tmp_path / "people.csv", "people", {"ID": Kind.INTEGER}).describe_columns()) == ["ID"]
    (tmp_path / "people.csv").write_text("id ,id\n1,2\n")
    with pytest.raises(SourceRefused, match="two columns of this file are called id"):
        DuckDB.open(tmp_path / "people.csv", "people")


def test_a_header_below_lines_of_comment_is_the_one_that_counts(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("# a\n# b\nid,id\n1,2\n3,4\n")
    with pytest.raises(SourceRefused, match="two columns of this file are called id"):
        DuckDB.open(tmp_path / "people.csv", "people")
    (tmp_path / "people.csv").write_text("id,,\n1,2,3\n")  # columns without a name are not of one name
    assert list(DuckDB.open(tmp_path / "people.csv", "people").describe_columns()) == ["id", "column1", "column2"]
