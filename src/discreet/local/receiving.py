"""From what arrived to counts and to an answer, for collections of every kind.

Reports arrive as messages that clients send, or as a table of their integers.

What a file holds is said by the end of its name, or by `layout`, and never by what stands in it: its lines come from
clients, and one of them must not decide how the others are read.

- `.jsonl`, `.ndjson` and `.json` (`layout="json"`): one JSON message per line;
- `.cbor` (`layout="cbor"`): CBOR messages one after the other (see `wire` for what stands between them);
- everything else (`layout="columns"`): a table, whose columns are those of `count_reports`. If it has a column `collection`,
  that holds the first 16 digits of the collection's id, as messages do; a column `version` holds the collection's version.

A message that no client writes is counted as rejected: by the reason of a table where there is one, and as `length` if it is
laid out otherwise.
"""

import gzip
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeAlias

import numpy as np

from discreet._numbers import Number
from discreet.errors import BadParameter
from discreet.local.collection import Collection
from discreet.local.counting import Counts, count_reports, open_reports
from discreet.local.decoding import LocalAnswer, decode
from discreet.local.oracles import SetOracle
from discreet.local.systems import MeanAnswer, SystemCounts, count_system, decode_system
from discreet.local.text_files import JSON_SUFFIXES, has_suffix, read_json_rows, split_lines, to_objects
from discreet.local.wire import ID_DIGITS, WIRE_VERSION, Form, Wire, read_messages, split_frames
from discreet.paths import reason_of

AnyCounts: TypeAlias = Counts | SystemCounts

Layout: TypeAlias = Literal["json", "cbor", "columns"]
LAYOUTS: tuple[Layout, ...] = ("json", "cbor", "columns")
MESSAGE_SUFFIXES = (*JSON_SUFFIXES, ".json")
CBOR_SUFFIXES = (".cbor", ".cbor.gz")
MESSAGE_COLUMNS = {"v", "c", "n", "y"}
MAX_SHOWN = 4
LINE_EXTRA = 6
"""A line may have a byte order mark and an end beside its message; what has one more byte is none."""


def count_collection(
    collection: Collection, source: Any, *, table: str | None = None, layout: Layout | None = None
) -> AnyCounts:
    """Count the reports of a collection, in a file of messages or in any table that `count_reports` opens.

    `layout` says what a file holds, where the end of its name does not: messages as "json" or "cbor", or "columns".

    Counts of set oracles are `Counts`, those of every other mechanism `SystemCounts`. `decode_collection` decodes both, and
    those of days and shards add up.

    Raises:
        BadParameter: a column is missing, or what is to be counted does not fit into memory.
        SourceRefused: the source cannot be read.
    """
    form = find_form(source, table, layout)
    if form is not None:
        return count_messages(collection, read_message_file(collection, source, form), form)
    wanted: dict[str, Any] = {"collection": collection.id[:ID_DIGITS], "version": collection.version}
    if _list_names(source) >= MESSAGE_COLUMNS:
        return _count_message_table(collection, source)
    if table is None and has_suffix(source, JSON_SUFFIXES):
        rows = read_json_rows([each.name for each in collection.mechanism.fields], source, wanted)
        for name, value in wanted.items():  # a line need not have them
            rows[name][[cell is None for cell in rows[name]]] = value
        return _count_rows(collection.mechanism, rows, **wanted)
    opened = open_reports(collection.mechanism, source, table, wanted)
    columns = opened if isinstance(opened, Mapping) else opened.describe_columns()
    if {*columns, "y"} >= MESSAGE_COLUMNS and not isinstance(opened, Mapping):
        raise _refuse_message_table(collection, opened.dialect.name)
    return _count_rows(collection.mechanism, opened, **{name: text for name, text in wanted.items() if name in columns})


def count_messages(collection: Collection, messages: Iterable[bytes], form: Form = Form.JSON) -> AnyCounts:
    """Count the reports of a collection among messages; of those with one nonce the first counts.

    >>> from fractions import Fraction
    >>> from discreet.local.client import Client
    >>> from discreet.local.collection import Lifetime
    >>> from discreet.local.domains import Listed
    >>> from discreet.local.oracles import Direct
    >>> from discreet.local.store import MemoryStore
    >>> direct = Direct(3, Fraction(3))
    >>> colours = Collection("colours", 1, direct, Listed(("red", "green")), Lifetime.of(direct, 2))
    >>> message = Client(colours, MemoryStore()).report("red", "monday")
    >>> counts = count_messages(colours, [message, message, b"spam"])
    >>> counts.n, counts.rejected["duplicate"], counts.rejected["length"]
    (1, 1, 1)
    """
    fields = collection.mechanism.fields
    received = read_messages(Wire(collection, form), messages)
    table = np.array(received.reports, np.int64).reshape(-1, len(fields))
    counted = _count_rows(collection.mechanism, {each.name: table[:, place] for place, each in enumerate(fields)})
    rejected = Counter(counted.rejected)
    for reason, times in received.rejected.items():
        rejected["length" if reason == "layout" else reason] += times
    return replace(counted, rejected=rejected)


def decode_collection(
    collection: Collection,
    counts: AnyCounts,
    *,
    candidates: Sequence[str | None] | None = None,
    confidence: Number = 0.95,
    hostile_share: Number = 0,
    consistent: bool = False,
) -> LocalAnswer | MeanAnswer:
    """Decode what `count_collection` counted: the people with each value, or their mean, with intervals.

    `candidates` are the texts to estimate, where the mechanism hashes texts; None among them is the missing value.

    >>> from fractions import Fraction
    >>> from discreet.local.collection import Lifetime
    >>> from discreet.local.domains import Integers
    >>> from discreet.local.numeric import OneBitMean
    >>> bit = OneBitMean(100, Fraction(3))
    >>> ages = Collection("ages", 1, bit, Integers(0, 100), Lifetime.of(bit, 2))
    >>> decode_collection(ages, count_collection(ages, {"b": [1, 0, 1, 0]})).mean.value
    50.0
    """
    wishes: dict[str, Any] = {"confidence": confidence, "hostile_share": hostile_share, "consistent": consistent}
    if isinstance(counts, SystemCounts):
        return decode_system(counts, domain=collection.domain, candidates=candidates, **wishes)
    if candidates is not None:
        raise BadParameter(
            "candidates", f"{len(candidates)} texts", "the values of this collection are known", "leave it out"
        )
    return decode(counts, labels=collection.domain.labels, **wishes)


def _list_names(source: Any) -> set[str]:
    """The columns of a mapping or of a frame in memory; none of any other source."""
    is_frame = type(source).__module__.partition(".")[0] in ("pandas", "polars")
    return set(map(str, source.columns)) if is_frame else set(source) if isinstance(source, Mapping) else set()


def _count_message_table(collection: Collection, source: Any) -> AnyCounts:
    """Count messages that were loaded into a table: version, collection, nonce and the list of integers in four columns."""
    versions, prefixes, nonces, lists = (_list_cells(source[name]) for name in ("v", "c", "n", "y"))
    fields = collection.mechanism.fields
    rows = [cells if isinstance(cells, list) and len(cells) == len(fields) else [None] * len(fields) for cells in lists]
    columns = {each.name: to_objects([row[place] for row in rows]) for place, each in enumerate(fields)}
    columns |= {"version": to_objects(versions), "collection": to_objects(prefixes), "nonce": to_objects(nonces)}
    counted = _count_rows(collection.mechanism, columns, collection=collection.id[:ID_DIGITS], version=WIRE_VERSION)
    return replace(counted, collection=None) if isinstance(counted, Counts) else counted  # as those of messages


def _list_cells(column: Any) -> list[Any]:
    """The cells of a column of any library, with lists as lists."""
    cells = column.to_list() if hasattr(column, "to_list") else column.tolist() if hasattr(column, "tolist") else column
    return [cell.tolist() if hasattr(cell, "tolist") else cell for cell in cells]


ELEMENTS = {"duckdb": ("len(y)", 1), "postgres": ("cardinality(y)", 1), "spark": ("size(y)", 0)}
"""How an engine counts the elements of a list, and the number of the first."""


def _refuse_message_table(collection: Collection, engine: str) -> BadParameter:
    fields, (length, first) = collection.mechanism.fields, ELEMENTS[engine]
    parts = [
        f"CASE WHEN v = {WIRE_VERSION} AND {length} = {len(fields)} THEN y[{first + place}] END AS {each.name}"
        for place, each in enumerate(fields)
    ]
    shown = ", ".join(parts if len(parts) <= MAX_SHOWN else [*parts[: MAX_SHOWN - 1], "…", parts[-1]])
    return BadParameter(
        "source", "a table of messages", "the integers of its reports stand in one column y",
        f"count this view of it: SELECT c AS collection, n AS nonce, {shown} FROM …",
    )  # fmt: skip


def _count_rows(mechanism: Any, source: Any, **wanted: Any) -> AnyCounts:
    if isinstance(mechanism, SetOracle):
        return count_reports(mechanism, source, **wanted)
    return count_system(mechanism, source, **wanted)


def find_form(source: Any, table: str | None = None, layout: Layout | None = None) -> Form | None:
    """Return how the messages of a file are written; None if the source is a table.

    >>> find_form("reports.jsonl"), find_form("reports.csv"), find_form("reports.log", layout="json")
    (<Form.JSON: 'json'>, None, <Form.JSON: 'json'>)
    """
    if layout is not None and layout not in LAYOUTS:
        raise BadParameter("layout", repr(layout), "not known", "give json or cbor for messages, columns for a table")
    if layout in ("json", "cbor"):
        if table is not None or not isinstance(source, str | Path):
            raise BadParameter("layout", repr(layout), "messages are read from files", "leave it out, or name a file")
        return Form(layout)
    if table is not None or layout is not None:
        return None
    if has_suffix(source, CBOR_SUFFIXES):
        return Form.CBOR
    return Form.JSON if has_suffix(source, MESSAGE_SUFFIXES) else None


def read_message_file(collection: Collection, path: Any, form: Form) -> Iterator[bytes]:
    """Read the messages of a file one by one, and what is none in between."""
    opener: Any = gzip.open if has_suffix(path, (".gz",)) else open
    try:
        with opener(Path(path), "rb") as file:
            yield from split_messages(collection, file, form)
    except (OSError, ValueError, EOFError, zlib.error) as failed:
        reason = reason_of(failed) if isinstance(failed, OSError) else "it cannot be read"
        raise BadParameter("source", repr(str(path)), reason, "check the path") from None


def split_messages(collection: Collection, file: BinaryIO, form: Form) -> Iterator[bytes]:
    """Return the messages of an opened file, and what is none in between, of which no more than its beginning is held."""
    wire = Wire(collection, form)
    return split_lines(file, wire.size + LINE_EXTRA) if form is Form.JSON else split_frames(wire, file)
