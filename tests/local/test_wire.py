"""All messages of a collection have one length and one structure, and nothing else is read as a message."""

import json
from contextlib import suppress
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import BadParameter
from discreet.local.collection import Collection, Lifetime
from discreet.local.domains import Integers
from discreet.local.draws import draw_all
from discreet.local.mechanism import draw_report
from discreet.local.oracles import Direct, Subset, Unary
from discreet.local.vectors import Seeded, choose_collection, list_mechanisms
from discreet.local.wire import BadMessage, Form, Wire, read_messages
from tests.support.draw_trees import list_some_values
from tests.support.local_mutants import LengthLeak, UnpaddedWire

ALL = [mechanism for mechanisms in list_mechanisms().values() for mechanism in mechanisms]
FORMS = pytest.mark.parametrize("form", Form, ids=lambda form: form.value)
AGES = Direct(101, Fraction(3))
COLLECTION = Collection("ages", 1, AGES, Integers(0, 100), Lifetime.of(AGES, 10))


def decode_cbor(data: bytes) -> Any:
    """Read one item by RFC 8949, knowing nothing of reports: any width of integers is well-formed."""
    item, rest = _decode_item(data)
    assert rest == b""
    return item


def _decode_item(data: bytes) -> tuple[Any, bytes]:
    major, short, rest = data[0] >> 5, data[0] & 31, data[1:]
    assert short <= 27
    width = 0 if short < 24 else 1 << short - 24
    number, rest = (short if not width else int.from_bytes(rest[:width], "big")), rest[width:]
    if major == 0:
        return number, rest
    if major == 2:
        return rest[:number], rest[number:]
    items = []
    for _ in range(number * (2 if major == 5 else 1)):
        item, rest = _decode_item(rest)
        items.append(item)
    assert major in (4, 5)
    return (items if major == 4 else dict(zip(items[::2], items[1::2], strict=True))), rest


def shape(message: bytes, form: Form) -> list[Any]:
    """What an observer of the layout sees: length, keys, and the lengths of what is not a number."""
    parts = json.loads(message) if form is Form.JSON else decode_cbor(message)
    version, prefix, nonce, numbers = parts.values()
    return [len(message), list(parts), version, prefix, len(nonce), len(numbers)]


@FORMS
@pytest.mark.parametrize("mechanism", ALL, ids=lambda each: f"{type(each).__name__}-{each.values}")
@settings(max_examples=5, deadline=None, derandomize=True)
@given(label=st.integers(0, 1 << 30))
def test_length_and_shape_do_not_depend_on_the_value(form: Form, mechanism: Any, label: int) -> None:
    wire, stream, shapes = Wire(choose_collection(mechanism, "once"), form), Seeded(f"shape {label}"), []
    for value in list_some_values(mechanism):
        nonce, (_, report) = stream.take(16), draw_report(mechanism, value, stream, stream.take(32), "id")
        message = wire.write(nonce, report)
        assert wire.read(message) == (nonce, report)
        shapes.append(shape(message, form))
    assert shapes == [shapes[0]] * len(shapes)
    assert shapes[0][0] == wire.size


def test_numbers_of_all_lengths_make_messages_of_one_length() -> None:
    wires = [Wire(COLLECTION, form) for form in Form]
    assert [{len(wire.write(bytes(16), (y,))) for y in range(101)} for wire in wires] == [{79}, {35}]


def test_a_wire_without_padding_is_noticed() -> None:
    lengths = {len(UnpaddedWire(COLLECTION).write(bytes(16), (y,))) for y in range(101)}
    assert lengths == {77, 78, 79}


def test_a_report_as_long_as_the_value_is_noticed() -> None:
    mutant = LengthLeak(40, Fraction(3), Fraction(1, 4))
    drawn = draw_all(Seeded("leak"), mutant.moduli)
    wire = Wire(choose_collection(Unary(40, Fraction(3), Fraction(1, 4))))
    assert len(wire.write(bytes(16), mutant.select(39, drawn))) == wire.size
    with pytest.raises(BadParameter, match="other fields"):
        wire.write(bytes(16), mutant.select(3, drawn))


@FORMS
def test_a_message_holds_nothing_but_its_four_parts(form: Form) -> None:
    message = Wire(COLLECTION, form).write(bytes(range(16)), (7,))
    parts = json.loads(message) if form is Form.JSON else decode_cbor(message)
    prefix: Any = COLLECTION.id[:16] if form is Form.JSON else bytes.fromhex(COLLECTION.id[:16])
    nonce: Any = bytes(range(16)).hex() if form is Form.JSON else bytes(range(16))
    assert list(parts.values()) == [1, prefix, nonce, [7]]


def test_cbor_is_as_it_was() -> None:
    golden = "a400010148" + COLLECTION.id[:16] + "0250" + "000102030405060708090a0b0c0d0e0f" + "03811807"
    assert Wire(COLLECTION, Form.CBOR).write(bytes(range(16)), (7,)).hex() == golden


# -- bad messages ----------------------------------------------------------------------------------------------------------


def reason_of(wire: Wire, message: bytes) -> str:
    with pytest.raises(BadMessage) as caught:
        wire.read(message)
    return caught.value.reason


GOOD = Wire(COLLECTION).write(bytes(16), (7,))
BAD_JSON = {
    GOOD + b" ": "length",
    GOOD.replace(b"  }", b"}"): "length",
    b"": "length",
    GOOD.replace(b'"v":1', b'"v":2'): "version",
    GOOD.replace(COLLECTION.id[:4].encode(), b"0000"): "collection",
    GOOD.replace(b"[7]  ", b"[101]"): "range",
    GOOD.replace(b"[7]  ", b"[-7] "): "range",
    GOOD.replace(b"[7]  ", b"[7,7]"): "layout",
    GOOD.replace(b"[7]  ", b"[7.0]"): "layout",
    GOOD.replace(b"[7]  ", b"[]   "): "layout",
    GOOD.replace(b"[7]  ", b" [7] "): "layout",
    GOOD.replace(b'"y"', b'"z"'): "layout",
    GOOD.replace(b'"n":"00', b'"n":"0g'): "layout",
    GOOD.replace(b'"n":"00', b'"n":"  '): "layout",
    b"[" * len(GOOD): "layout",
    b"\xff" * len(GOOD): "layout",
}


@pytest.mark.parametrize("message", BAD_JSON, ids=lambda message: repr(message[-24:]))
def test_bad_json_is_named_by_its_reason(message: bytes) -> None:
    assert reason_of(Wire(COLLECTION), message) == BAD_JSON[message]


def test_every_changed_byte_of_cbor_is_noticed_or_changes_what_is_read() -> None:
    wire = Wire(COLLECTION, Form.CBOR)
    good = wire.write(bytes(16), (7,))
    for place in range(len(good)):
        for byte in range(256):
            changed = good[:place] + bytes([byte]) + good[place + 1 :]
            with suppress(BadMessage):
                assert wire.write(*wire.read(changed)) == changed


@FORMS
@given(st.binary(max_size=100))
def test_any_bytes_are_read_or_refused(form: Form, message: bytes) -> None:
    with pytest.raises(BadMessage):
        Wire(COLLECTION, form).read(message)


def test_a_report_that_no_draw_makes_is_out_of_range() -> None:
    wire = Wire(choose_collection(Subset(5, Fraction(3), 2)))
    message = wire.write(bytes(16), (1, 3))
    assert reason_of(wire, message.replace(b"[1,3]", b"[3,1]")) == "range"


def test_messages_are_counted_by_what_is_wrong_and_duplicates_once() -> None:
    wire = Wire(COLLECTION)
    good = [wire.write(bytes([place]) * 16, (place,)) for place in range(5)]
    received = read_messages(wire, [*good, *BAD_JSON, good[0], good[3], good[3]])
    assert received.reports == [(place,) for place in range(5)]
    counts = {reason: list(BAD_JSON.values()).count(reason) for reason in BadMessage.REASONS}
    assert dict(received.rejected) == counts | {"duplicate": 3}


def test_no_messages_are_no_reports() -> None:
    received = read_messages(Wire(COLLECTION), [])
    assert (received.reports, received.rejected.total()) == ([], 0)


@pytest.mark.parametrize("messages", [None, 5, b"spam", "spam", object()], ids=lambda each: type(each).__name__)
def test_what_is_no_list_of_messages_is_refused(messages: Any) -> None:
    with pytest.raises(BadParameter, match=r"^messages is of type"):
        read_messages(Wire(COLLECTION), messages)


def test_what_is_no_bytes_is_no_message() -> None:
    received = read_messages(Wire(COLLECTION), [None, 5, "spam"])  # type: ignore[list-item]
    assert (received.reports, received.rejected["length"]) == ([], 3)
