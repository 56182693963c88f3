"""The same table in every format of file: the same exact totals, the same units, the same refusals."""

import gzip
import json
import logging
from collections.abc import Callable, Sequence
from datetime import date, datetime
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from discreet import BadParameter, SourceRefused, connect
from discreet.engines.duckdb import rows as rows_module
from discreet.engines.duckdb.engine import DuckDB
from discreet.engines.duckdb.rows import format_exact
from discreet.query.schema import Column, Kind, Table, format_unit
from discreet.session.session import Session
from tests.support.console import run
from tests.support.rounds import every_nth_by_day
from tests.support.spreadsheets import Raw, write_workbook

Rows = Sequence[tuple[Any, ...]]
Writer = Callable[[Path, Sequence[str], Rows], Path]
KINDS = {"id": Kind.INTEGER, "name": Kind.TEXT, "dept": Kind.TEXT, "pay": Kind.REAL, "ok": Kind.BOOLEAN, "day": Kind.DATE}
ARROW = {
    Kind.INTEGER: pa.int64(), Kind.TEXT: pa.string(), Kind.REAL: pa.float64(), Kind.BOOLEAN: pa.bool_(),
    Kind.DATE: pa.date32(),
}  # fmt: skip


def csv_text(names: Sequence[str], rows: Rows) -> str:
    def cell(value: Any) -> str:
        if isinstance(value, bool):
            return str(value).lower()
        return "" if value is None else '"' + str(value).replace('"', '""') + '"'

    return "".join(",".join(map(cell, row)) + "\n" for row in [names, *rows])


def write_csv(folder: Path, names: Sequence[str], rows: Rows) -> Path:
    (folder / "people.csv").write_text(csv_text(names, rows), encoding="utf-8")
    return folder / "people.csv"


def write_gzip(folder: Path, names: Sequence[str], rows: Rows) -> Path:
    (folder / "people.csv.gz").write_bytes(gzip.compress(csv_text(names, rows).encode()))
    return folder / "people.csv.gz"


def write_zstd(folder: Path, names: Sequence[str], rows: Rows) -> Path:
    with pa.OSFile(str(folder / "people.csv.zst"), "wb") as file, pa.CompressedOutputStream(file, "zstd") as stream:
        stream.write(csv_text(names, rows).encode())
    return folder / "people.csv.zst"


def json_lines(names: Sequence[str], rows: Rows) -> str:
    lines = (dict(zip(names, row, strict=True)) for row in rows)
    return "".join(json.dumps(line, default=str, ensure_ascii=False) + "\n" for line in lines)


def write_json_lines(folder: Path, names: Sequence[str], rows: Rows) -> Path:
    (folder / "people.jsonl").write_text(json_lines(names, rows), encoding="utf-8")
    return folder / "people.jsonl"


def write_json_gzip(folder: Path, names: Sequence[str], rows: Rows) -> Path:
    (folder / "people.ndjson.gz").write_bytes(gzip.compress(json_lines(names, rows).encode()))
    return folder / "people.ndjson.gz"


def write_excel(folder: Path, names: Sequence[str], rows: Rows) -> Path:
    return write_workbook(folder / "people.xlsx", {"People": [names, *rows]})


def arrow_table(names: Sequence[str], rows: Rows) -> pa.Table:
    cells = {name: [row[i] for row in rows] for i, name in enumerate(names)}
    return pa.table({name: pa.array(cells[name], ARROW[KINDS[name]]) for name in names})


def write_arrow(folder: Path, names: Sequence[str], rows: Rows) -> Path:
    table = arrow_table(names, rows)
    with pa.OSFile(str(folder / "people.arrow"), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    return folder / "people.arrow"


def write_feather(folder: Path, names: Sequence[str], rows: Rows) -> Path:
    pyarrow.feather.write_feather(arrow_table(names, rows), folder / "people.feather", compression="zstd")
    return folder / "people.feather"


def write_parquet(folder: Path, names: Sequence[str], rows: Rows) -> Path:
    pq.write_table(arrow_table(names, rows), folder / "people.parquet")
    return folder / "people.parquet"


WRITERS: list[Writer] = [
    write_csv, write_gzip, write_zstd, write_json_lines, write_json_gzip, write_excel, write_arrow, write_feather,
    write_parquet,
]  # fmt: skip
UNTYPED = WRITERS[:6]


def people(seed: int) -> list[tuple[Any, ...]]:
    rng = Random(seed)
    return [
        (
            rng.choice([None, *range(1, 12), -3, 2**52]), rng.choice(["01", "1", "1.4", " 1", "Ann", "ä,b", None]),
            rng.choice(["a", "b", "c", None]), rng.choice([None, -5.25, 0.5, 99.75, 1e9]), rng.choice([True, False, None]),
            rng.choice([None, date(2024, 2, 29), date(1999, 12, 31)]),
        )
        for _ in range(60)
    ]  # fmt: skip


def declare(unit: Sequence[str]) -> Table:
    columns = {name: Column(kind) for name, kind in KINDS.items()}
    columns["pay"] = columns["pay"].with_bounds(0, 100)
    columns["dept"] = columns["dept"].with_keys(("a", "b", "z"))
    return Table("people", format_unit(unit), columns, max_groups=2, max_rows=3)


QUERIES = [
    "SELECT dept, COUNT(*) AS n, SUM(pay) AS s, COUNT(ok) AS k FROM people GROUP BY dept",
    "SELECT COUNT(*) AS n, COUNT(DISTINCT name) AS m FROM people WHERE day = '2024-02-29' OR ok",
    "SELECT MEDIAN(pay) AS m FROM people",
]


def exact(session: Session) -> list[Any]:
    """All exact totals and histograms of the queries."""
    found: list[Any] = []
    for query in QUERIES:
        bounded = session.calibrate(query, epsilon=1).bounded
        found.append(sorted(session.engine.read_totals(bounded), key=repr))
        found += [sorted(session.engine.read_histogram(bounded, counts), key=repr) for counts in bounded.cell_counts]
    return found


@pytest.mark.parametrize("seed", every_nth_by_day(range(3), 3))
@pytest.mark.parametrize("unit", [("id",), ("name",), ("id", "name"), ()])
def test_the_same_table_in_every_format_gives_the_same_totals(unit: Sequence[str], seed: int, tmp_path: Path) -> None:
    """Which groups of a unit count depends on the text that identifies it, so the units are the same, too."""
    rows = people(seed)
    found = {
        write.__name__: exact(connect(write(tmp_path, list(KINDS), rows), policy=declare(unit), epsilon=1))
        for write in WRITERS
    }
    assert all(totals == found["write_csv"] for totals in found.values())


def test_chunks_make_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_json_lines(tmp_path, list(KINDS), people(7))
    whole = exact(connect(path, policy=declare(["id"]), epsilon=1))
    monkeypatch.setattr(rows_module, "CHUNK", 7)
    assert exact(connect(path, policy=declare(["id"]), epsilon=1)) == whole


@pytest.mark.parametrize("write", WRITERS)
def test_without_a_policy_every_format_can_be_asked(write: Writer, tmp_path: Path) -> None:
    session = connect(write(tmp_path, list(KINDS), people(1)), unit="id", epsilon=1)
    assert session.table.name == "people"
    assert session.engine.identity.startswith(str(tmp_path / "people."))
    assert session.table.columns["id"].kind is Kind.INTEGER
    inferred = any("types were inferred" in note for note in session.notes)
    assert inferred == (write in UNTYPED)


# -- hostile cells ---------------------------------------------------------------------------------------------------------

HOSTILE: list[Any] = [
    "1", "01", "1.4", " 1 ", "x", "NaN", "inf", "-inf", "1e400", "99999999999999999999", "0x1", "1_000", "", "true",
    "2024-13-01", "99999-01-01", "0000-00-00", "-5000-01-01", "2024-02-29", "a\"b", "日本", "\x01",
]  # fmt: skip


@pytest.mark.parametrize("kind", list(Kind))
def test_texts_are_read_alike_in_every_format_without_types(kind: Kind, tmp_path: Path) -> None:
    """A hostile text changes no other cell, and is read as in a CSV file: as its kind, or as NULL."""
    cells = [cell for cell in HOSTILE if cell != "\x01"]  # which XML cannot hold
    rows = [(i, cell) for i, cell in enumerate(cells)]
    found = {}
    for write in UNTYPED:
        engine = DuckDB.open(write(tmp_path, ["id", "x"], rows), "people", {"id": Kind.INTEGER, "x": kind}, "id")
        [*found[write.__name__]] = engine.connection.execute("SELECT x::VARCHAR FROM people ORDER BY id").fetchall()
    # JSON alone has an empty text that is not a missing cell
    assert found["write_json_lines"] == found["write_json_gzip"]
    empty = cells.index("")
    for name in found:
        found[name][empty] = (None,)
    assert all(each == found["write_csv"] for each in found.values())


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.REAL])
def test_spellings_are_units_of_their_own_in_every_format(kind: Kind, tmp_path: Path) -> None:
    rows = [(cell, 1) for cell in HOSTILE if cell not in ("", "\x01")]
    columns = {"id": Column(kind), "v": Column(Kind.INTEGER)}
    for write in UNTYPED:
        session = connect(write(tmp_path, ["id", "v"], rows), policy=Table("people", "id", columns), epsilon=1)
        [(totals, _)] = session.engine.read_totals(session.calibrate(COUNT, epsilon=1).bounded)
        assert totals == (len(rows),), write.__name__


COUNT = "SELECT COUNT(*) AS n FROM people"


def units_in(path: Path, kind: Kind) -> int:
    session = connect(path, policy=Table("people", "id", {"id": Column(kind)}), epsilon=1)
    [(totals, _)] = session.engine.read_totals(session.calibrate(COUNT, epsilon=1).bounded)
    return int(totals[0])


NUMBERS = ["1", "2", "9007199254740992", "9007199254740993", "1.5", "1e400", "1e999999999", "1e99999999999999999999", "-1"]
SAME = ["1.0", "1e0", "10e-1", "2.00", "1.50", "-1.0"]


@pytest.mark.parametrize("kind", [Kind.INTEGER, Kind.TEXT])
def test_numbers_in_json_are_exact(kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal numbers are one unit however they are written, others never are. The mutant reads doubles."""
    path = tmp_path / "people.jsonl"
    others = ['"1"', '"01"', "true", '"\\ud800"', '"\\ud801"', '"\\u0000number:1"']
    path.write_text("".join(f'{{"id": {each}}}\n' for each in [*NUMBERS, *SAME, *others, "null", "[1]", '{"a": 1}']))
    assert units_in(path, kind) == len(NUMBERS) + len(others)
    monkeypatch.setattr(rows_module, "format_exact", lambda number: str(float(number)))
    assert units_in(path, kind) < len(NUMBERS) + len(others)


def test_the_one_text_of_a_number() -> None:
    from fractions import Fraction

    written = [
        "0",
        "-0",
        "0.0",
        "1",
        "1.0",
        "100",
        "1e2",
        "1E+2",
        "0.001",
        "1e-3",
        "10e-4",
        "-12.50",
        "-12.5",
        "123456789e3",
    ]
    values = {text: Fraction(text) for text in written}
    assert {Fraction(format_exact(text)) == value for text, value in values.items()} == {True}
    assert len({format_exact(text) for text in written}) == len(set(values.values()))


def test_a_sheet_tells_large_numbers_and_dates_apart_or_refuses_them(tmp_path: Path) -> None:
    for cells, reason in (
        ([2**53], "floats, which do not tell large ids apart"),
        ([date(2024, 1, 1)], "dates of a spreadsheet"),
        ([datetime(2024, 1, 1, 12)], "dates of a spreadsheet"),
    ):
        path = write_excel(tmp_path, ["id", "v"], [(cell, 1) for cell in [1, "x", *cells]])
        with pytest.raises(SourceRefused, match=reason):
            connect(path, unit="id", epsilon=1)


def test_odd_cells_of_a_sheet_are_missing(tmp_path: Path) -> None:
    error, time_of_day, negative = Raw("t='e'><v>#N/A</v>"), Raw("s='1'><v>0.5</v>"), Raw("s='1'><v>-5</v>")
    path = write_excel(tmp_path, ["id", "v"], [(1, error), (2, time_of_day), (3, negative), (4, ""), (5, 7.0), (6, "8")])
    engine = DuckDB.open(path, "people", {"id": Kind.INTEGER, "v": Kind.INTEGER}, "id")
    assert engine.connection.execute("SELECT v FROM people ORDER BY id").fetchall() == [(None,)] * 4 + [(7,), (8,)]


def test_sheets_are_chosen_by_their_name(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "discreet.owner")
    sheets = {"One": [["id"], [1]], "Ann Smith": [["id"], [1], [2]]}
    path = write_workbook(tmp_path / "people.xlsx", sheets)
    chosen = connect(f"{path}#Ann Smith", unit="id", unique=True, epsilon=1)
    assert (chosen.engine.identity, chosen.table.name) == (f"{path}#Ann Smith", "people")
    assert units_in(Path(f"{path}#Ann Smith"), Kind.INTEGER) == 2
    for wrong in (str(path), f"{path}#Two"):
        with pytest.raises(SourceRefused) as refused:
            connect(wrong, unit="id", epsilon=1)
        assert "people.xlsx#Sheet1" in str(refused.value)
        assert "Ann Smith" not in str(refused.value)
    single = write_workbook(tmp_path / "one.xlsx", {"One": [["id"], [1]]})
    assert connect(single, unit="id", epsilon=1).engine.identity == f"{single}#One"
    odd = write_workbook(tmp_path / "a.xlsx#One", {"One": [["id"], [1]]})
    with pytest.raises(SourceRefused, match="not a kind of file"):  # a file of just this name
        connect(odd, unit="id", epsilon=1)


# -- refusals --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("write", WRITERS)
def test_a_missing_file_is_named(write: Writer, tmp_path: Path) -> None:
    path = write(tmp_path, ["id"], [(1,)])
    path.unlink()
    with pytest.raises(SourceRefused, match=f"there is no such file: '{path}'"):
        connect(path, unit="id", epsilon=1)


BROKEN: dict[str, tuple[str, bytes, str]] = {
    "empty CSV": ("p.csv", b"", "this file is empty: it has no header"),
    "empty gzip": ("p.csv.gz", gzip.compress(b""), "this file is empty: it has no header"),
    "short row": ("p.csv", b"id,v\n1,2\n3\n", "does not have as many cells as its header, which has 2"),
    "long row": ("p.csv.gz", gzip.compress(b"id,v\n1,2,3\n"), "does not have as many cells as its header, which has 2"),
    "not UTF-8": ("p.csv", b"id,v\n1,\xff\n", "heck that it is CSV in UTF-8"),
    "not gzip": ("p.csv.gz", b"id,v\n1,2\n", "that it is compressed with gzip"),
    "not zstd": ("p.csv.zst", b"id,v\n1,2\n", "that it is compressed with zstd"),
    "cut gzip": ("p.csv.gz", gzip.compress(b"id,v\n" + b"1,2\n" * 9)[:-12], "cannot be read"),
    "not JSON": ("p.jsonl", b'{"id": 1}\nid,v\n', "a line of this file is not a JSON object"),
    "no object": ("p.jsonl", b"[1]\n", "a line of this file is not a JSON object"),
    "cut JSON": ("p.ndjson", b'{"id": 1}\n{"id": ', "a line of this file is not a JSON object"),
    "JSON not UTF-8": ("p.jsonl", b'{"id": "\xff", "v": 1}\n', "a line of this file is not a JSON object"),
    "deep JSON": ("p.jsonl", b'{"id": ' + b"[" * 10**5, "a line of this file is not a JSON object"),
    "not a workbook": ("p.xlsx", b"id,v\n1,2\n", "this workbook cannot be read"),
    "not Arrow": ("p.arrow", b"id,v\n1,2\n", "this is not an Arrow file"),
    "empty Arrow": ("p.feather", b"", "this is not an Arrow file"),
    "cut Arrow": ("p.feather", b"ARROW1\0\0" + b"\xff" * 30, "this is not an Arrow file"),
}


@pytest.mark.parametrize("case", BROKEN)
@pytest.mark.parametrize("declared", [False, True])
def test_a_broken_file_says_what_is_wrong(case: str, declared: bool, tmp_path: Path) -> None:
    name, held, reason = BROKEN[case]
    (tmp_path / name).write_bytes(held)
    table = Table("p", "id", {"id": Column(Kind.INTEGER), "v": Column(Kind.INTEGER)}) if declared else None
    with pytest.raises(SourceRefused) as refused:
        connect(tmp_path / name, unit="id", policy=table, epsilon=1)
    assert reason in str(refused.value)


@pytest.mark.parametrize("name", ["p.csv", "p.csv.gz", "p.jsonl"])
def test_a_refusal_shows_no_value(name: str, tmp_path: Path) -> None:
    text = b'{"id": 1}\n{"id": "Ann Smith"\n' if name == "p.jsonl" else b"id,v\n1,2\n3,Ann Smith,4\n"
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    with pytest.raises(SourceRefused) as refused:
        connect(tmp_path / name, unit="id", epsilon=1)
    assert "Smith" not in str(refused.value)


def test_an_empty_jsonl_file_has_the_declared_columns(tmp_path: Path) -> None:
    """With a policy; without one nothing says what its columns are."""
    (tmp_path / "people.jsonl").write_text("\n\n")
    assert exact(connect(tmp_path / "people.jsonl", policy=declare(["id"]), epsilon=1))[1] in ([((0, 0), ())], [])
    with pytest.raises(SourceRefused, match="this file is empty: without a row it has no columns"):
        connect(tmp_path / "people.jsonl", unit="id", epsilon=1)


def test_several_files_are_one_table(tmp_path: Path) -> None:
    for i in range(2):
        (tmp_path / f"part{i}.jsonl").write_text(f'{{"id": {i}}}\n')
        (tmp_path / f"part{i}.csv.gz").write_bytes(gzip.compress(f"id\n{i}\n".encode()))
        pyarrow.feather.write_feather(pa.table({"id": [i]}), tmp_path / f"part{i}.feather")
    for pattern in ("*.jsonl", "*.csv.gz", "*.feather"):
        session = connect(str(tmp_path / pattern), unit="id", epsilon=1, table="people")
        [(totals, _)] = session.engine.read_totals(session.calibrate(COUNT, epsilon=1).bounded)
        assert totals == (2,)
    pyarrow.feather.write_feather(pa.table({"id": ["x"]}), tmp_path / "part2.feather")
    with pytest.raises(SourceRefused, match="different columns or types"):
        connect(str(tmp_path / "*.feather"), unit="id", epsilon=1)


def test_texts_in_arrow_that_are_not_utf8_are_refused_at_opening(tmp_path: Path) -> None:
    broken = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")])
    pyarrow.feather.write_feather(pa.table({"id": [1], "x": broken}), tmp_path / "p.feather", compression="uncompressed")
    with pytest.raises(SourceRefused, match="this is not an Arrow file that can be read"):
        connect(tmp_path / "p.feather", unit="id", epsilon=1)


@pytest.mark.parametrize("write", [write_zstd, write_json_lines, write_excel, write_feather])
def test_a_repeated_question_is_free_in_a_new_session(write: Writer, tmp_path: Path) -> None:
    path = write(tmp_path, ["id"], [(i,) for i in range(9)])
    ledger = str(tmp_path / "hr.ledger")
    run("ledger", "open", ledger, "--account", "hr", "--epsilon", "1")
    answers = [connect(path, unit="id", unique=True, ledger=ledger).ask(COUNT, epsilon=0.5).rows for _ in range(3)]
    assert answers[0] == answers[1] == answers[2]


def test_a_public_table_may_be_in_any_format(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("id,dept\n1,a\n2,b\n")
    (tmp_path / "depts.jsonl").write_text('{"dept": "a", "floor": 1}\n{"dept": "b", "floor": 2}\n')
    session = connect(
        tmp_path / "people.csv", unit="id", unique=True, epsilon=1, public={"depts": str(tmp_path / "depts.jsonl")}
    )
    assert session.table.public["depts"].columns["floor"].keys == (1, 2)


def test_a_frame_and_its_file_agree(tmp_path: Path) -> None:
    """pandas writes whole numbers beside a missing one as 1.0."""
    frame = pd.DataFrame({"id": [1, 2, None, 1], "dept": ["a", "a", "b", "b"]})
    frame.to_json(tmp_path / "people.jsonl", orient="records", lines=True)
    declared = Table("people", "id", {"id": Column(Kind.INTEGER), "dept": Column(Kind.TEXT).with_keys(("a", "b"))})
    query = "SELECT dept, COUNT(*) AS n FROM people GROUP BY dept"
    found = []
    for source in (frame, tmp_path / "people.jsonl"):
        session = connect(source, table="people", policy=declared, epsilon=1)
        found.append(sorted(session.engine.read_totals(session.calibrate(query, epsilon=1).bounded)))
    assert found[0] == found[1]


def test_duckdb_reads_the_number_of_an_integer_beyond_64_bits_as_missing() -> None:
    assert duckdb.sql("SELECT TRY_CAST('99999999999999999999' AS BIGINT)").fetchall() == [(None,)]


def test_a_name_in_json_that_no_policy_declares_is_seen(tmp_path: Path) -> None:
    (tmp_path / "people.jsonl").write_text('{"v": 1}\n{"v": 2, "Row": 7}\n')
    with pytest.raises(BadParameter, match="the source has a column 'Row'"):
        connect(tmp_path / "people.jsonl", policy=Table("people", "row", {"v": Column(Kind.INTEGER)}), epsilon=1)


@pytest.mark.parametrize("name", ["", "\0", "a\0b", "\ud800", "a\nb", "\u202e", '"', "a" * 100_000], ids=ascii)
def test_any_name_in_json_lines_is_read_or_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "people.jsonl").write_text(json.dumps({"id": 1, name: 2}) + "\n")
    declared = Table("people", "id", {"id": Column(Kind.INTEGER)})
    DuckDB.open(tmp_path / "people.jsonl", "people", {"id": Kind.INTEGER}, "id")
    connect(tmp_path / "people.jsonl", policy=declared, epsilon=1).ask("SELECT COUNT(*) AS n FROM people", epsilon=1)
    try:
        connect(tmp_path / "people.jsonl", unit="id", epsilon=1).ask("SELECT COUNT(*) AS n FROM people", epsilon=1)
    except SourceRefused:
        assert name in ("", "\ud800")
    else:
        assert name not in ("", "\ud800")
