"""Messages and tables of one collection are counted alike, whatever bad ones stand among them."""

from pathlib import Path

import numpy as np
import pytest

from discreet.local import (
    Client,
    Collection,
    Counts,
    Form,
    Integers,
    Lifetime,
    MemoryStore,
    choose_oracle,
    count_collection,
    count_messages,
    count_reports,
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
