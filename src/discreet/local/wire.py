"""Reports as bytes: JSON or CBOR, of one size for each collection.

A message holds the version of this layout, the first 16 hexadecimal digits of the collection's id, a nonce, and the integers
of the report. It holds no time, no name of a device and no sequence number.

**Size.** The integers of a report vary in length when they are written out, so JSON is padded with spaces before its closing
brace, and CBOR writes each integer at the width of the largest that its field can have (well-formed by RFC 8949, though
not the shortest). So all messages of a collection have the same length and the same structure, and an observer of encrypted
traffic learns nothing. Compression would undo that: send messages as they are.

**Nonce.** 16 random bytes that a client draws for each report and repeats when it sends the same report again: the receiver
keeps the first of several. It is drawn before the report and says nothing of it. A shuffler removes it.

    JSON  {"v":1,"c":"b479522125e68fd8","n":"<32 hexadecimal digits>","y":[2]}
    CBOR  a4 00 01  01 48 <8 bytes>  02 50 <16 bytes>  03 <array of fixed-width integers>

**Files of CBOR.** No mark stands between messages. All of a collection begin with the same 15 bytes (`Wire.head`), which the
rest of an honest one holds with probability below 2^-110 only. So `split_frames` begins a message wherever these bytes
stand, and never elsewhere: bytes that a client adds or leaves out spoil its own message and no other.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, BinaryIO

import msgspec

from discreet.errors import BadParameter
from discreet.local.collection import Collection
from discreet.local.oracles import Report

WIRE_VERSION = 1
NONCE_BYTES = 16
ID_DIGITS = 16
CBOR_HEAD_BYTES = 15
"""What stands before the nonce of a CBOR message."""
BLOCK_BYTES = 1 << 20


class Form(Enum):
    """How a message is written."""

    JSON = "json"
    CBOR = "cbor"


class Wire:
    """The messages of one collection.

    >>> from fractions import Fraction
    >>> from discreet.local.collection import Lifetime
    >>> from discreet.local.domains import Integers
    >>> from discreet.local.oracles import Direct
    >>> ages = Direct(101, Fraction(3))
    >>> wire = Wire(Collection("ages", 1, ages, Integers(0, 100), Lifetime.of(ages, 10)))
    >>> wire.write(bytes(16), (7,))
    b'{"v":1,"c":"c87b0cc14b902cbe","n":"00000000000000000000000000000000","y":[7]  }'
    >>> wire.size, wire.read(wire.write(bytes(16), (100,)))[1]
    (79, (100,))
    """

    def __init__(self, collection: Collection, form: Form = Form.JSON) -> None:
        self.form, self.fields = form, tuple(collection.mechanism.fields)
        self.prefix = collection.id[:ID_DIGITS]
        self.is_valid = getattr(collection.mechanism, "is_valid", self._is_in_range)
        largest = self._write_plain(bytes(NONCE_BYTES), [each.below - 1 for each in self.fields])
        self.size, self.head = len(largest), largest[:CBOR_HEAD_BYTES]

    def write(self, nonce: bytes, report: Sequence[int]) -> bytes:
        """Return the message of a report."""
        if len(nonce) != NONCE_BYTES or not self.is_valid(tuple(report)):
            raise BadParameter("report", "not one of this collection", "it has other fields", "draw it with Client.report")
        message = self._write_plain(nonce, report)
        return message if self.form is Form.CBOR else message[:-1] + b" " * (self.size - len(message)) + b"}"

    def read(self, message: bytes) -> tuple[bytes, Report]:
        """Return the nonce and the report of a message.

        Raises:
            BadMessage: no client of this collection writes it. `reason` is one of `BadMessage.REASONS`.
        """
        if not isinstance(message, bytes | bytearray | memoryview) or len(message) != self.size:
            raise BadMessage("length")
        try:
            version, prefix, nonce, report = _read_json(message) if self.form is Form.JSON else self._read_cbor(message)
        except (msgspec.MsgspecError, ValueError):
            raise BadMessage("layout") from None
        if version != WIRE_VERSION:
            raise BadMessage("version")
        if prefix != self.prefix:
            raise BadMessage("collection")
        if len(nonce) != NONCE_BYTES or len(report) != len(self.fields):
            raise BadMessage("layout")
        if not self.is_valid(report):
            raise BadMessage("range")
        if self.write(nonce, report) != message:
            raise BadMessage("layout")
        return nonce, report

    def _is_in_range(self, report: Report) -> bool:
        """Whether every integer is one that its field can have."""
        return len(report) == len(self.fields) and all(
            0 <= number < each.below for number, each in zip(report, self.fields, strict=True)
        )

    def _write_plain(self, nonce: bytes, report: Sequence[int]) -> bytes:
        """Write a message, in JSON without padding."""
        if self.form is Form.JSON:
            numbers = ",".join(map(str, report))
            return f'{{"v":{WIRE_VERSION},"c":"{self.prefix}","n":"{nonce.hex()}","y":[{numbers}]}}'.encode("ascii")
        parts = [bytes([0xA4, 0x00, WIRE_VERSION, 0x01, 0x48]), bytes.fromhex(self.prefix), b"\x02\x50", nonce, b"\x03"]
        parts.append(_cbor_head(4, len(self.fields), len(self.fields) + 1))
        parts += [_cbor_head(0, number, each.below) for number, each in zip(report, self.fields, strict=True)]
        return b"".join(parts)

    def _read_cbor(self, message: bytes) -> tuple[int, str, bytes, Report]:
        """Read the integers at their places; `read` compares all other bytes by writing the message again."""
        version, prefix, nonce = message[2], message[5:13].hex(), message[15:31]
        place = 32 + _cbor_width(len(self.fields) + 1)
        numbers = []
        for each in self.fields:
            width = _cbor_width(each.below)
            head = message[place : place + width]
            numbers.append(int.from_bytes(head if width == 1 else head[1:], "big"))
            place += width
        return version, prefix, nonce, tuple(numbers)


class BadMessage(ValueError):
    """A message that no client of the collection writes."""

    REASONS = ("length", "layout", "version", "collection", "range", "duplicate")

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"wrong {reason}")


@dataclass(frozen=True)
class Received:
    """The reports among messages, and how many others there were, by reason."""

    reports: list[Report]
    rejected: Counter[str] = field(default_factory=Counter)


def read_messages(wire: Wire, messages: Iterable[bytes]) -> Received:
    """Read messages in the order of arrival; count what is wrong, and every message whose nonce was seen before."""
    received, seen = Received([]), set[bytes]()
    if isinstance(messages, str | bytes) or not isinstance(messages, Iterable):
        raise BadParameter(
            "messages", f"of type {type(messages).__name__}", "not a list of messages", "give a list of bytes"
        )
    for message in messages:
        try:
            nonce, report = wire.read(message)
        except BadMessage as error:
            received.rejected[error.reason] += 1
            continue
        if nonce in seen:
            received.rejected["duplicate"] += 1
            continue
        seen.add(nonce)
        received.reports.append(report)
    return received


def split_frames(wire: Wire, file: BinaryIO) -> Iterator[bytes]:
    """Return the CBOR messages of a file, and what stands between them in pieces of their size.

    >>> from fractions import Fraction
    >>> from io import BytesIO
    >>> from discreet.local.collection import Lifetime
    >>> from discreet.local.domains import Integers
    >>> from discreet.local.oracles import Direct
    >>> ages = Direct(101, Fraction(3))
    >>> wire = Wire(Collection("ages", 1, ages, Integers(0, 100), Lifetime.of(ages, 10)), Form.CBOR)
    >>> message = wire.write(bytes(16), (7,))
    >>> [len(frame) for frame in split_frames(wire, BytesIO(b"spam" + message + b"!" + message))]
    [4, 35, 1, 35]
    """
    head, size, rest = wire.head, wire.size, b""
    while block := file.read(BLOCK_BYTES):
        first, *others = (rest + block).split(head)
        pieces = [first, *(head + other for other in others)]
        for piece in pieces[:-1]:
            yield from _cut(piece, size)
        # A head may begin in the last bytes of what was read.
        whole = max(0, len(pieces[-1]) - len(head) + 1) // size * size
        yield from _cut(pieces[-1][:whole], size)
        rest = pieces[-1][whole:]
    yield from _cut(rest, size)


def _cut(piece: bytes, size: int) -> Iterator[bytes]:
    return (piece[start : start + size] for start in range(0, len(piece), size))


class _Message(msgspec.Struct, forbid_unknown_fields=True):
    """The layout of JSON."""

    v: int
    c: str
    n: str
    y: tuple[int, ...]


_DECODER: msgspec.json.Decoder[_Message] = msgspec.json.Decoder(_Message, strict=True)


def _read_json(message: bytes) -> tuple[Any, str, bytes, Report]:
    """Read the parts of a message."""
    found = _DECODER.decode(message)
    return found.v, found.c, bytes.fromhex(found.n), found.y


def _cbor_width(below: int) -> int:
    """How many bytes every integer below a bound takes: the initial byte, and 0, 1, 2, 4 or 8 more."""
    if below <= 24:
        return 1
    return 1 + next(width for width in (1, 2, 4, 8) if below <= 1 << 8 * width)


def _cbor_head(major: int, number: int, below: int) -> bytes:
    """Write the head of a CBOR item, at the width of the largest number below a bound.

    >>> _cbor_head(0, 7, 24), _cbor_head(0, 7, 1000)
    (b'\\x07', b'\\x19\\x00\\x07')
    """
    width = _cbor_width(below) - 1
    if not width:
        return bytes([major << 5 | number])
    return bytes([major << 5 | 24 + (1, 2, 4, 8).index(width)]) + number.to_bytes(width, "big")
