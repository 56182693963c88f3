"""Plain JSON values that come from another machine, read strictly: size, depth and types are checked first.

A service is not trusted by its clients, nor are clients by a service. What is read here becomes numbers, texts and frozen
values of discreet, never code, a path or a class that the sender names. Fields that are not known are ignored in what a
service sends, so that a newer one can say more.
"""

from decimal import Decimal, InvalidOperation
from fractions import Fraction
from math import inf, isinf
from typing import Any, TypeVar

import msgspec

from discreet.codec import from_wire, to_wire
from discreet.errors import ServiceUnavailable
from discreet.text import to_printable_lines

MAX_BYTES = 64 << 20
"""The largest message that is read: an answer of a million groups has about as much."""
MAX_DEPTH = 100
MAX_TEXT = 100_000
"""The longest text that is shown to a person."""

Struct = TypeVar("Struct")
_NESTED = (dict, list, tuple)  # a union would be made anew for each value


def malformed(what: str) -> ServiceUnavailable:
    """Return the error for a message that is not what it should be."""
    return ServiceUnavailable(
        f"The service sent what cannot be read: {what}", "update discreet if the service is newer, or tell its steward"
    )


def parse_json(message: bytes, limit: int = MAX_BYTES) -> Any:
    """Return the plain values of a message; refuse one that is too long, too deep or no JSON.

    >>> parse_json(b'{"a": [1, 0.5, null]}')
    {'a': [1, 0.5, None]}
    """
    if len(message) > limit:
        raise malformed(f"a message of more than {limit:,} bytes")
    try:
        value = msgspec.json.decode(message)
    except (msgspec.MsgspecError, RecursionError, ValueError, OverflowError):
        raise malformed("a message that is no JSON") from None
    check_depth(value)
    return value


def check_depth(value: Any) -> None:
    """Refuse values that nest too deeply, level by level: no recursion."""
    level = [value]
    for _ in range(MAX_DEPTH):
        nested = [each for each in level if isinstance(each, _NESTED)]
        if not nested:
            return
        level = [inner for each in nested for inner in (each.values() if isinstance(each, dict) else each)]
    raise malformed(f"values that nest more than {MAX_DEPTH} deep")


def to_struct(value: Any, kind: type[Struct], what: str) -> Struct:
    """Return plain values as a struct whose types were checked."""
    check_depth(value)
    try:
        return msgspec.convert(value, kind, strict=True)
    except (msgspec.MsgspecError, RecursionError):
        raise malformed(f"not {what}") from None


def to_shown_text(text: str) -> str:
    """Return a text of the other side, made safe to show."""
    return to_printable_lines(text[:MAX_TEXT])


def rational_to_plain(exact: Fraction) -> str:
    """Return a rational as text.

    >>> rational_to_plain(Fraction(1, 3))
    '1/3'
    """
    return str(to_wire(exact))


def rational_from_plain(text: Any) -> Fraction:
    """Return the rational that a text states: "1/3", and nothing else."""
    try:
        exact: Fraction = from_wire(Fraction, text)
    except (msgspec.MsgspecError, ValueError):
        raise malformed("a text that is no rational") from None
    return exact


def amount_to_plain(amount: Fraction | float) -> str | float:
    """Return an exact amount as text, a double as a number, infinity as "inf"."""
    if isinstance(amount, Fraction):
        return rational_to_plain(amount)
    return number_to_plain(amount)


def amount_from_plain(value: Any) -> Fraction | float:
    """Return the amount that `amount_to_plain` wrote.

    >>> amount_from_plain("3/8"), amount_from_plain("inf"), amount_from_plain(0.5)
    (Fraction(3, 8), inf, 0.5)
    """
    if isinstance(value, str) and "/" in value:
        return rational_from_plain(value)
    return number_from_plain(value)


def number_to_plain(number: float) -> str | float:
    """Return a number that JSON can hold: infinity is a text."""
    return ("inf" if number > 0 else "-inf") if isinf(number) else number


def number_from_plain(value: Any) -> float:
    """Return the number that `number_to_plain` wrote; integers stay such."""
    if value in ("inf", "-inf") and isinstance(value, str):
        return inf if value == "inf" else -inf
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise malformed("a value that is no number")
    return value


def any_to_plain(value: object) -> Any:
    """Return any value of a message: numbers exactly, all else as the text that the message shows.

    >>> any_to_plain(Fraction(1, 3)), any_to_plain("a"), any_to_plain(None), any_to_plain((1, 2))
    ({'rational': '1/3'}, 'a', None, '(1, 2)')
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int) and type(value) is int:
        return value if value.bit_length() <= 63 else {"integer": str(value)} if value.bit_length() < 9000 else "…"
    if isinstance(value, Fraction):
        return {"rational": rational_to_plain(value)}
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if type(value) is float:
        return value if value == value and not isinf(value) else {"decimal": str(value), "double": True}
    return str(value)


def any_from_plain(value: Any) -> object:
    """Return the value that `any_to_plain` wrote."""
    match value:
        case None | bool() | int() | float():
            return value
        case str():
            return to_shown_text(value)
        case {"rational": text}:
            return rational_from_plain(text)
        case {"integer": str(text)} if text.removeprefix("-").isdecimal() and len(text) < 4000:
            return int(text)
        case {"decimal": str(text), **rest} if len(text) < 4000:
            try:
                return float(text) if rest.get("double") is True else Decimal(text)
            except (ValueError, InvalidOperation):
                pass
    raise malformed("a value of an unknown kind")
