"""Events as JSON, in a form that every later version can read.

An event is an object with the tag of its kind; a rational is the text "n/d" in lowest terms; a sensitivity is an object of
its four norms. What this version would not have written itself (an unknown field, an unreduced rational, a scale of zero) is
refused: an event of which a part is ignored would be charged wrongly.
"""

import json
from fractions import Fraction
from functools import lru_cache
from typing import Any

import msgspec

from discreet.errors import BadEventEncoding, BadParameter
from discreet.events import (
    Composition,
    Event,
    Group,
    Memoised,
    Parallel,
    SampledWithoutReplacement,
    Shuffled,
    Subsampled,
)
from discreet.units import Sensitivity

MAX_RATIONAL_BITS = 12_000
"""The longest rational that is stored: far more than any parameter has, and short enough to parse at once."""


def encode(event: Event) -> bytes:
    """Return the event as one line of JSON.

    >>> from discreet.events import Claim
    >>> encode(Claim(Fraction(1, 2), Fraction(0)))
    b'{"type":"Claim","epsilon":"1/2","delta":"0/1"}'
    """
    return _ENCODER.encode(event)


def decode(stored: bytes | str) -> Event:
    """Return the event that was encoded: `decode(encode(event)) == event` for every event.

    Raises:
        BadEventEncoding: the bytes are not what `encode` writes for some event.

    >>> decode(b'{"type":"Claim","epsilon":"1/2","delta":"0/1"}')
    Claim(epsilon=Fraction(1, 2), delta=Fraction(0, 1))
    """
    try:
        event = _DECODER.decode(stored)
        same = msgspec.json.decode(encode(event)) == json.loads(stored, object_pairs_hook=_reject_duplicate_keys)
        _check_sensitivities(event)
    except (msgspec.MsgspecError, BadParameter, ArithmeticError, RecursionError, ValueError) as error:
        raise BadEventEncoding(str(error), "read it with the version that wrote it") from None
    if not same:
        raise BadEventEncoding("it holds more, or other, than its fields", "read it with the version that wrote it")
    return event


def to_wire(value: Any) -> Any:
    """Encode a value that msgspec does not know: a rational is the text "n/d".

    >>> to_wire(Fraction(1, 3))
    '1/3'
    """
    if isinstance(value, Fraction):
        top, bottom = value.as_integer_ratio()
        if not top:  # as most rationals of a debit
            return "0/1"
        if top.bit_length() + bottom.bit_length() < MAX_RATIONAL_BITS:
            return f"{top}/{bottom}"
    raise BadEventEncoding(f"no wire form for this {type(value).__name__}", "state it with fewer digits")


def from_wire(kind: type, text: Any) -> Any:
    """Decode what `to_wire` encoded.

    >>> from_wire(Fraction, "1/3")
    Fraction(1, 3)
    """
    if kind is not Fraction or not isinstance(text, str) or len(text) > MAX_RATIONAL_BITS // 3:
        raise msgspec.ValidationError(f"this is no {kind.__name__}")
    return _parse_rational(text)


@lru_cache(maxsize=1024)
def _parse_rational(text: str) -> Fraction:
    """Parse "n/d". The costs and scales of a long ledger repeat."""
    top, slash, bottom = text.partition("/")
    if not slash or not top.removeprefix("-").isdecimal() or not bottom.isdecimal() or not int(bottom):
        raise msgspec.ValidationError('a rational is written "n/d"')
    return Fraction(int(top), int(bottom))


def _reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the fields as a dict; refuse one that is given twice, which could be read either way."""
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise msgspec.ValidationError("a field is given twice")
    return fields


def _check_sensitivities(event: Event) -> None:
    """Check the norms of every sensitivity: msgspec builds a `Sensitivity` without the checks of its `__init__`."""
    match event:
        case Composition(parts=parts):
            for part, _ in parts:
                _check_sensitivities(part)
        case Parallel(branches=branches):
            for branch in branches:
                _check_sensitivities(branch)
        case Memoised(report=report, permanent=permanent, instantaneous=instantaneous):
            for inner in (report, permanent, *(() if instantaneous is None else (instantaneous,))):
                _check_sensitivities(inner)
        case Group(event=inner) | Subsampled(event=inner) | SampledWithoutReplacement(event=inner) | Shuffled(event=inner):
            _check_sensitivities(inner)
        case _:
            stored = getattr(event, "sensitivity", None)
            if stored is not None and rebuild_sensitivity(stored) != stored:
                raise msgspec.ValidationError("impossible sensitivity")


def rebuild_sensitivity(stored: Sensitivity) -> Sensitivity:
    """Return a sensitivity of the same norms, checked against each other.

    >>> rebuild_sensitivity(Sensitivity(l0=4, linf=1))
    Sensitivity(l0=4, l1=4, l2=2, linf=1)
    """
    return Sensitivity(l0=stored.l0, l1=stored.l1, l2_squared=stored.l2_squared, linf=stored.linf)


_ENCODER = msgspec.json.Encoder(enc_hook=to_wire, order="deterministic")
_DECODER: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event, dec_hook=from_wire)
