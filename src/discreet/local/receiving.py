"""From what arrived to counts and to an answer, for collections of every kind.

Reports arrive as messages that clients send, or as a table of their integers.

A file of messages holds one JSON message per line, or CBOR messages one after the other: all messages of a collection have
the same length, so no mark stands between them. Everything else is a table, whose columns are those of `count_reports`. If
it has a column `collection`, that holds the first 16 digits of the collection's id, as messages do; a column `version` holds
the collection's version.

A message that no client writes is counted as rejected: by the reason of a table where there is one, and as `length` if it is
laid out otherwise.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from discreet._numbers import Number
from discreet.errors import BadParameter
from discreet.local.collection import Collection
from discreet.local.counting import Counts, count_reports
from discreet.local.decoding import LocalAnswer, decode
from discreet.local.oracles import SetOracle
from discreet.local.systems import MeanAnswer, SystemCounts, count_system, decode_system
from discreet.local.wire import ID_DIGITS, Form, Wire, read_messages
from discreet.paths import reason_of

AnyCounts: TypeAlias = Counts | SystemCounts

CBOR_SUFFIX = ".cbor"
JSON_START = b'{"v":'
"""How every JSON message begins, and no other row of JSON lines that holds reports."""


def count_collection(collection: Collection, source: Any, *, table: str | None = None) -> AnyCounts:
    """Count the reports of a collection, in a file of messages or in any table that `count_reports` opens.

    Counts of set oracles are `Counts`, those of every other mechanism `SystemCounts`. `decode_collection` decodes both, and
    those of days and shards add up.

    Raises:
        BadParameter: a column is missing, or what is to be counted does not fit into memory.
        SourceRefused: the source cannot be read.
    """
    form = None if table is not None else find_form(source)
    if form is not None:
        return count_messages(collection, read_message_file(collection, source, form), form)
    columns = _list_columns(source, table)
    wanted: dict[str, Any] = {"collection": collection.id[:ID_DIGITS], "version": collection.version}
    return _count_rows(
        collection.mechanism, source, table=table, **{name: text for name, text in wanted.items() if name in columns}
    )


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


def _count_rows(mechanism: Any, source: Any, **wanted: Any) -> AnyCounts:
    if isinstance(mechanism, SetOracle):
        return count_reports(mechanism, source, **wanted)
    return count_system(mechanism, source, **wanted)


def find_form(source: Any) -> Form | None:
    """Return how the messages of a file are written; None if the source is a table."""
    if not isinstance(source, str | Path):
        return None
    path = Path(source)
    if path.suffix.lower() == CBOR_SUFFIX:
        return Form.CBOR
    try:
        with path.open("rb") as file:
            return Form.JSON if file.read(len(JSON_START)) == JSON_START else None
    except (OSError, ValueError):
        return None  # an address, or a path that the engine refuses in its own words


def read_message_file(collection: Collection, path: Any, form: Form) -> Iterator[bytes]:
    """Read the messages of a file one by one."""
    try:
        with Path(path).open("rb") as file:
            if form is Form.JSON:
                yield from split_lines(file)
            else:
                size = Wire(collection, form).size
                yield from iter(lambda: file.read(size), b"")
    except OSError as failed:
        raise BadParameter("source", repr(str(path)), reason_of(failed), "check the path") from None


def split_lines(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Return the messages of lines, without their ends; empty lines are left out.

    >>> list(split_lines([b"{}\\r\\n", b"\\n", b"{ }"]))
    [b'{}', b'{ }']
    """
    return (message for line in lines if (message := line.rstrip(b"\r\n")))


def _list_columns(source: Any, table: str | None) -> Any:
    from collections.abc import Mapping

    if isinstance(source, Mapping):
        return source
    from discreet.engines.registry import open_engine

    return open_engine(source, table, name="reports").describe_columns()
