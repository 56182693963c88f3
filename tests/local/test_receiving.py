"""Messages and tables of one collection are counted alike, whatever bad ones stand among them."""

import gzip
import json
import tracemalloc
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas
import polars
import pytest

from discreet.errors import BadParameter, SourceRefused
from discreet.local import (
    Client,
    Collection,
    Counts,
    Direct,
    Form,
    Integers,
    Lifetime,
    MemoryStore,
    Subset,
    Unary,
    choose_oracle,
    count_collection,
    count_messages,
    count_reports,
    decode_collection,
)
from discreet.local.wire import Wire

ORACLES = ["direct", "symmetric unary", "subset", "hashed", "hadamard", "projective"]


def make(name: str) -> Collection:
    oracle = choose_oracle(40, 2, name)
    return Collection("numbers", 3, oracle, Integers(0, 39), Lifetime.of(oracle, 2))


@pytest.mark.parametrize("form", list(Form))
@pytest.mark.parametrize("name", ORACLES)
def test_a_file_of_messages_is_counted_as_its_integers_are(name: str, form: Form, tmp_path: Path) -> None:
    collection = make(name)
    wire = Wire(collection, form)
    messages = [Client(collection, MemoryStore(), form).report(value % 40, "once") for value in range(60)]
    rows = np.array([wire.read(message)[1] for message in messages])
    expected = count_reports(
        collection.mechanism, dict(zip((f.name for f in collection.mechanism.fields), rows.T, strict=True))
    )
    path = tmp_path / ("reports.cbor" if form is Form.CBOR else "reports.jsonl")
    end = b"\n" if form is Form.JSON else b""
    path.write_bytes(b"".join(message + end for message in messages))
    assert count_collection(collection, path) == expected == count_messages(collection, messages, form)


def test_bad_messages_are_counted_by_kind_and_change_nothing_else() -> None:
    collection, other = make("direct"), make("projective")
    good = Client(collection, MemoryStore()).report(7, "x")
    strange = Client(other, MemoryStore()).report(7, "x")
    wrong_version = good.replace(b'{"v":1', b'{"v":2')
    out_of_range = Wire(collection).write(bytes(16), (39,)).replace(b"39", b"40")
    layout = b" " + good[:-1]
    counts = count_messages(collection, [good, good, strange, wrong_version, out_of_range, layout, b"short"])
    alone = count_messages(collection, [good])
    assert (counts.n, counts.cells.tolist()) == (1, alone.cells.tolist())
    assert counts.rejected == {"collection": 1, "version": 1, "length": 2, "range": 1, "duplicate": 1}


def test_a_table_with_a_collection_and_a_version_counts_only_its_own() -> None:
    collection = make("direct")
    own = collection.id[:16]
    table = {
        "y": np.array([1, 2, 3, 4]),
        "collection": np.array([own, own, "other", own]),
        "version": np.array([3, 3, 3, 2]),
    }
    counts = count_collection(collection, table)
    assert isinstance(counts, Counts)
    assert (counts.n, counts.rejected["collection"], counts.rejected["version"]) == (2, 1, 1)


def test_no_messages_are_no_reports() -> None:
    assert count_messages(make("hashed"), []).n == 0


# -- what a file holds --------------------------------------------------------------------------------------------------

COLOURS = Direct(5, Fraction(3))
SPAM = [
    b"spam", b'{"y":2}', b"{}", b"[]", b" ", b'{"y":[1]}', b'{"v":1}', b"1", b'"a"', b"x" * 77, b'{"y":null}', b"\xff\xfe",
    b'{"y":9223372036854775808}', b'{"y":1,"nonce":"q"}', b"[" * 100_000,
]  # fmt: skip
"""Lines that a hostile client may send."""


def send(times: int, form: Form = Form.JSON) -> list[bytes]:
    return [Client(make("direct"), MemoryStore(), form).report(7, "x") for _ in range(times)]


@pytest.mark.parametrize("spam", SPAM, ids=lambda each: repr(each[:12]))
@pytest.mark.parametrize("place", [0, 3])
def test_no_line_decides_how_the_others_are_read(spam: bytes, place: int, tmp_path: Path) -> None:
    collection, honest = make("direct"), send(6)
    path = tmp_path / "reports.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in [*honest[:place], spam, *honest[place:]]))
    counts, alone = count_collection(collection, path), count_messages(collection, honest)
    assert isinstance(counts, Counts)
    assert isinstance(alone, Counts)
    assert (counts.n, counts.cells.tolist(), counts.received) == (6, alone.cells.tolist(), 7)


def test_a_byte_order_mark_is_no_part_of_a_message(tmp_path: Path) -> None:
    path = tmp_path / "reports.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + b"\n".join(send(3)))
    assert count_collection(make("direct"), path).n == 3


@pytest.mark.parametrize("spam", SPAM, ids=lambda each: repr(each[:12]))
@pytest.mark.parametrize("place", [0, 2])
def test_no_line_decides_how_other_columns_are_read(spam: bytes, place: int, tmp_path: Path) -> None:
    """The analyst says that a file of JSON lines holds columns."""
    lines = [b'{"y":3}', b'{"y":4,"nonce":"a"}', b'{"y":4,"nonce":"a"}']
    path = tmp_path / "reports.jsonl"
    path.write_bytes(b"\n".join([*lines[:place], spam, *lines[place:]]))
    counts = count_collection(make("direct"), path, layout="columns")
    assert isinstance(counts, Counts)
    assert counts.cells[3:5].tolist() == [1, 1]
    assert counts.rejected["duplicate"] == 1
    assert counts.received == 4
    assert count_reports(make("direct").mechanism, path).cells.tolist() == counts.cells.tolist()


def test_lines_of_other_collections_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "reports.ndjson"
    path.write_text('{"y":1,"collection":"other"}\n{"y":1,"version":2}\n{"y":1,"version":3}\n{"y":1}\n')
    counts = count_collection(make("direct"), path, layout="columns")
    assert (counts.n, counts.rejected["collection"], counts.rejected["version"]) == (2, 1, 1)


def test_the_analyst_says_what_a_file_holds(tmp_path: Path) -> None:
    path = tmp_path / "reports.log"
    path.write_bytes(b"\n".join(send(2)))
    assert count_collection(make("direct"), path, layout="json").n == 2
    path.write_bytes(b"".join(send(2, Form.CBOR)))
    assert count_collection(make("direct"), path, layout="cbor").n == 2
    with pytest.raises(BadParameter, match=r"(?i)give json or cbor"):
        count_collection(make("direct"), path, layout="xml")  # type: ignore[arg-type]
    with pytest.raises(BadParameter, match="read from files"):
        count_collection(make("direct"), {"y": [1]}, layout="json")


@pytest.mark.parametrize("bad", ["abc", "inf", "9" * 44, "\u0663", "true", "1.5", "-1", "", "0x1", "nan", '"a,b"', "1_0"])
@pytest.mark.parametrize("place", [0, 30_000])
def test_a_bad_cell_of_a_csv_file_is_counted_and_changes_nothing_else(bad: str, place: int, tmp_path: Path) -> None:
    """Also behind the rows from which types are inferred."""
    path = tmp_path / "reports.csv"
    path.write_text("y,other\n" + "1,x\n" * place + f"{bad},x\n2,x\n3,x\n", encoding="utf-8")
    counts = count_collection(make("direct"), path)
    assert isinstance(counts, Counts)
    assert (counts.n, counts.received, counts.cells[:4].tolist()) == (place + 2, place + 3, [0, place, 1, 1])


BAD_LINES = [
    b"1", b"1,a,b", b",,", b'"', b'"1,a', b'1,"a', b'1,"a"b', b"1;a", b"\xff\xfe", b"1\0,a", b"1,a\r2,b\r3",
    b"x" * 2_000_000, b"1," + b"a" * 2_000_000,
]  # fmt: skip


@pytest.mark.parametrize("bad", BAD_LINES, ids=lambda bad: repr(bad[:12]))
@pytest.mark.parametrize("place", [0, 2, 4])
def test_a_bad_line_of_a_csv_file_is_counted_and_changes_nothing_else(bad: bytes, place: int, tmp_path: Path) -> None:
    """Neither too many cells, nor an open quote, nor bytes that are no text."""
    lines = [b"1,a", b"2,b", b'"3","c"', b"1,a"]
    path = tmp_path / "reports.csv"
    path.write_bytes(b"\n".join([b"y,nonce", *lines[:place], bad, *lines[place:]]))
    counts = count_collection(make("direct"), path)
    assert isinstance(counts, Counts)
    assert (counts.n, counts.received, counts.rejected["duplicate"]) == (3, 5, 1)
    assert counts.rejected["length"] == 1
    assert counts.cells[:4].tolist() == [0, 1, 1, 1]


def test_two_stray_quotes_take_no_report_out_of_a_csv_file(tmp_path: Path) -> None:
    path = tmp_path / "reports.csv"
    path.write_text('y,nonce\n1,"a\n2,b\n3,c\n1,d"\n')
    counts = count_collection(make("direct"), path)
    assert isinstance(counts, Counts)
    assert counts.cells[2:4].tolist() == [1, 1]
    assert counts.received == 4


@pytest.mark.parametrize("end", [".csv", ".csv.gz", ".tsv"])
def test_files_of_cells_are_read_with_their_delimiter_compression_and_mark(end: str, tmp_path: Path) -> None:
    text = '\ufeffother, y ,nonce\r\n"a, b",1,x\r\n\r\nc,2,y'.replace(",", "\t" if end == ".tsv" else ",")
    for name in ("one", "two"):
        write: Any = gzip.open if end.endswith(".gz") else open
        with write(tmp_path / f"{name}{end}", "wt", encoding="utf-8", newline="") as file:
            file.write(text)
    one = count_collection(make("direct"), tmp_path / f"one{end}")
    assert isinstance(one, Counts)
    assert one.cells[:3].tolist() == [0, 1, 1]
    assert count_collection(make("direct"), str(tmp_path / f"*{end}")).rejected["duplicate"] == 2


def test_no_line_or_nonce_fills_the_memory(tmp_path: Path) -> None:
    """A nonce as long as all other reports, and a line without end."""
    table, messages = tmp_path / "table.jsonl", tmp_path / "reports.jsonl"
    table.write_text(
        "".join(f'{{"y":1,"nonce":"{place}"}}\n' for place in range(2000)) + f'{{"y":1,"nonce":"{"a" * 20_000}"}}'
    )
    with gzip.open(messages.with_suffix(".jsonl.gz"), "wb") as file:
        file.writelines([*(message + b"\n" for message in send(2)), b" " * 20_000_000, b"\n", send(1)[0]])
    tracemalloc.start()
    try:
        assert count_collection(make("direct"), table, layout="columns").n == 2001
        counts = count_collection(make("direct"), messages.with_suffix(".jsonl.gz"))
        assert (counts.n, counts.rejected["length"]) == (3, 1)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_a_bad_version_and_a_bad_collection_of_a_csv_file_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "reports.csv"
    own = make("direct").id[:16]
    path.write_text(f"y,version,collection\n1,3,{own}\n1,abc,{own}\n1,,{own}\n1,3,7\n1,3.0,{own}\n")
    counts = count_collection(make("direct"), path)
    assert (counts.n, counts.rejected["version"], counts.rejected["collection"]) == (1, 3, 1)


def test_a_bad_cell_of_a_frame_is_counted() -> None:
    frame = pandas.DataFrame({"y": [1, "abc", None, 2]})
    counts = count_reports(COLOURS, frame)
    assert (counts.n, counts.rejected["range"], counts.rejected["length"]) == (2, 1, 1)


@pytest.mark.parametrize("junk", [b"\xff" * 5, b"\0", b"\xa4\x00\x01", b"x" * 1000, b"\x5b\x7f" + b"\xff" * 7])
@pytest.mark.parametrize("place", [0, 1, 3])
def test_junk_in_a_file_of_cbor_spoils_no_message(junk: bytes, place: int, tmp_path: Path) -> None:
    messages = send(3, Form.CBOR)
    path = tmp_path / "reports.cbor"
    path.write_bytes(b"".join([*messages[:place], junk, *messages[place:]]))
    counts = count_collection(make("direct"), path)
    assert counts.n == 3
    assert counts.received == 3 + -(-len(junk) // len(messages[0]))


def test_a_truncated_or_forged_message_of_cbor_spoils_no_other(tmp_path: Path) -> None:
    """Every beginning of a message, and one whose nonce is the beginning of another."""
    wire = Wire(make("direct"), Form.CBOR)
    one, two = send(2, Form.CBOR)
    forged = wire.write(wire.head + b"\0", (0,))
    path = tmp_path / "reports.cbor"
    for cut in range(1, len(one)):
        path.write_bytes(one[:cut] + two)
        assert count_collection(make("direct"), path).n == 1, cut
    path.write_bytes(forged + two)
    assert count_collection(make("direct"), path).n == 1
    strange = Client(make("projective"), MemoryStore(), Form.CBOR).report(7, "x")
    path.write_bytes(one + strange + two)
    assert count_collection(make("direct"), path).n == 2


def test_frames_are_found_across_blocks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    messages = send(20, Form.CBOR)
    path = tmp_path / "reports.cbor"
    path.write_bytes(b"".join(b"\xa4" * (place % 3) + message for place, message in enumerate(messages)))
    for size in (1, 2, 7, 34, 35, 36, 100):
        monkeypatch.setattr("discreet.local.wire.BLOCK_BYTES", size)
        assert count_collection(make("direct"), path).n == 20


@pytest.mark.parametrize("name", ["reports.jsonl", "reports.cbor", "reports.csv"])
def test_files_without_reports_are_counted(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text("y\n" if name.endswith("csv") else "")
    counts = count_collection(make("direct"), path)
    assert (counts.n, counts.received) == (0, 0)
    assert "No report was accepted" in repr(decode_collection(make("direct"), counts))


def test_a_file_without_its_columns_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "reports.csv"
    path.write_text("z\n1\n")
    with pytest.raises(BadParameter, match="without a column 'y'"):
        count_collection(make("direct"), path)
    path.write_text("")
    with pytest.raises(SourceRefused, match="has no header"):
        count_collection(make("direct"), path)
    with pytest.raises(BadParameter, match="Check the path"):
        count_collection(make("direct"), tmp_path / "none.jsonl")


def test_what_is_no_message_at_all_is_rejected() -> None:
    strange: Any = [None, 5, "text", send(1)[0].decode()]
    assert count_messages(make("direct"), strange).rejected["length"] == 4


# -- messages that were loaded into a table -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize("load", [pandas.DataFrame, polars.DataFrame, dict])
def test_a_table_of_messages_is_counted_as_the_messages_are(name: str, load: Any) -> None:
    collection = make(name)
    messages = [Client(collection, MemoryStore()).report(value, "once") for value in range(20)]
    rows = [json.loads(message) for message in [*messages, messages[3]]]
    counts = count_collection(collection, load({key: [row[key] for row in rows] for key in "vcny"}))
    assert counts == count_messages(collection, [*messages, messages[3]])
    assert counts.rejected["duplicate"] == 1


@pytest.mark.parametrize(
    ("column", "bad", "kind"),
    [
        ("v", 2, "version"), ("v", None, "version"), ("c", "0" * 16, "collection"), ("c", None, "collection"),
        ("n", None, "length"), ("y", None, "length"), ("y", [], "length"), ("y", [1, 1], "length"), ("y", [None], "length"),
        ("y", [40], "range"), ("y", ["1"], "range"), ("y", 1, "length"),
    ],
)  # fmt: skip
def test_a_bad_row_of_a_table_of_messages_is_counted(column: str, bad: Any, kind: str) -> None:
    rows = [json.loads(message) for message in send(3)]
    rows[1][column] = bad
    counts = count_collection(make("direct"), pandas.DataFrame(rows))
    assert (counts.n, counts.rejected[kind], counts.received) == (2, 1, 3)


@pytest.mark.parametrize("name", ORACLES)
def test_a_table_of_messages_in_an_engine_is_refused_with_the_view_that_is_counted(name: str) -> None:
    collection, database = make(name), duckdb.connect()
    messages = [Client(collection, MemoryStore()).report(value, "once").decode() for value in range(20)]
    database.execute("CREATE TABLE texts AS SELECT UNNEST($messages) AS text", {"messages": messages})
    shape = '{"v": "BIGINT", "c": "VARCHAR", "n": "VARCHAR", "y": ["BIGINT"]}'
    database.execute(f"CREATE TABLE reports AS SELECT UNNEST(from_json(text, '{shape}')) FROM texts")
    with pytest.raises(BadParameter, match="a table of messages") as refused:
        count_collection(collection, database, table="reports")
    view = str(refused.value).partition("view of it: ")[2].replace("FROM ….", "FROM reports")
    if "…" not in view:  # all columns are spelt out
        database.execute(f"CREATE VIEW columns AS {view}")
        counts = count_collection(collection, database, table="columns")
        assert counts + Counts.nothing(collection.mechanism) == counts
        assert counts.received == counts.n == 20
        assert (counts + count_messages(collection, [message.encode() for message in messages])).n == 40


def test_counts_of_two_collections_do_not_add_up() -> None:
    oracle = make("direct").mechanism
    one, two = (count_reports(oracle, {"y": [1], "collection": [name]}, collection=name) for name in ("a", "b"))
    assert (one + count_reports(oracle, {"y": [1]})).collection == "a"
    with pytest.raises(BadParameter, match="two collections"):
        one + two


# -- counts made by hand ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("oracle", "cells", "n"),
    [
        (COLOURS, [5, 0, 0, 0, 0], 3),
        (COLOURS, [0] * 5, -4),
        (COLOURS, [4, -1, 0, 0, 0], 3),
        (COLOURS, [1.5, 1.5, 0, 0, 0], 3),
        (Unary.optimised(3, Fraction(3)), [4, 0, 0], 3),
        (Subset(4, Fraction(3), 2), [1, 1, 1, 0], 2),
        (Subset(4, Fraction(3), 2), [3, 1, 0, 0], 2),
    ],
)
def test_counts_that_no_reports_have_are_refused(oracle: Any, cells: list[Any], n: int) -> None:
    with pytest.raises(BadParameter, match=r"cells|n is"):
        Counts(oracle, np.array(cells), n)


def test_negative_rejections_are_refused() -> None:
    with pytest.raises(BadParameter, match="rejected"):
        Counts(COLOURS, np.zeros(5, np.int64), 0, {"range": -1})
