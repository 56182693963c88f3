"""Facts as JSON, in a form that stays readable for as long as there are ledgers.

A fact is an object tagged with its name; a rational is the text "n/d" in lowest terms; a sensitivity is an object of its
four norms. What this version would not have written itself (an unknown field, an unreduced rational, a scale of zero) is
refused: to ignore part of a fact is to misjudge it.
"""

import json
from fractions import Fraction
from typing import Any

import msgspec

from discreet.errors import BadEventEncoding, BadParameter
from discreet.events import (
    Composition,
    Event,
    Group,
    Parallel,
    SampledWithoutReplacement,
    Subsampled,
)
from discreet.units import Sensitivity

MAX_RATIONAL_BITS = 12_000
"""How long a rational may be: far more than any parameter has, and short enough to read without a pause."""


def encode(event: Event) -> bytes:
    """The fact as one line of JSON.

    >>> from discreet.events import Claim
    >>> encode(Claim(Fraction(1, 2), Fraction(0)))
    b'{"type":"Claim","epsilon":"1/2","delta":"0/1"}'
    """
    return _ENCODER.encode(event)


def decode(stored: bytes | str) -> Event:
    """The fact that was encoded; `decode(encode(loss)) == loss` for every loss.

    >>> decode(b'{"type":"Claim","epsilon":"1/2","delta":"0/1"}')
    Claim(epsilon=Fraction(1, 2), delta=Fraction(0, 1))
    """
    try:
        loss = _DECODER.decode(stored)
        same = msgspec.json.decode(encode(loss)) == json.loads(stored, object_pairs_hook=_reject_duplicate_keys)
        _check_sensitivities(loss)
    except (msgspec.MsgspecError, BadParameter, ArithmeticError, RecursionError, ValueError) as error:
        raise BadEventEncoding(str(error), "read it with the version that wrote it") from None
    if not same:
        raise BadEventEncoding("it holds more, or other, than its fields", "read it with the version that wrote it")
    return loss


def to_wire(value: Any) -> Any:
    """What msgspec asks of a value that it does not know: rationals are the text "n/d"."""
    if isinstance(value, Fraction) and value.numerator.bit_length() + value.denominator.bit_length() < MAX_RATIONAL_BITS:
        return f"{value.numerator}/{value.denominator}"
    raise BadEventEncoding(f"no wire form for this {type(value).__name__}", "state it with fewer digits")


def from_wire(kind: type, text: Any) -> Any:
    """The way back."""
    if kind is not Fraction or not isinstance(text, str) or len(text) > MAX_RATIONAL_BITS // 3:
        raise msgspec.ValidationError(f"no {kind.__name__} is written like this")
    top, slash, bottom = text.partition("/")
    if not slash or not top.removeprefix("-").isdecimal() or not bottom.isdecimal() or not int(bottom):
        raise msgspec.ValidationError('a rational is written "n/d"')
    return Fraction(int(top), int(bottom))


def _reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The fields as a dict; one that is stated twice could be read either way."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise msgspec.ValidationError("a field is stated twice")
    return found


def _check_sensitivities(event: Event) -> None:
    """`PrivacyEvent` has refused what could not have run; the checks of `Sensitivity` must be run again by hand."""
    match event:
        case Composition(parts=parts):
            for part, _ in parts:
                _check_sensitivities(part)
        case Parallel(branches=branches):
            for branch in branches:
                _check_sensitivities(branch)
        case Group(event=inner) | Subsampled(event=inner) | SampledWithoutReplacement(event=inner):
            _check_sensitivities(inner)
        case _:
            stored = getattr(event, "sensitivity", None)
            if stored is not None and rebuild_sensitivity(stored) != stored:
                raise msgspec.ValidationError("impossible sensitivity")


def rebuild_sensitivity(stored: Sensitivity) -> Sensitivity:
    """The same norms, checked against each other as if a person had typed them."""
    return Sensitivity(l0=stored.l0, l1=stored.l1, l2_squared=stored.l2_squared, linf=stored.linf)


_ENCODER = msgspec.json.Encoder(enc_hook=to_wire, order="deterministic")
_DECODER: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event, dec_hook=from_wire)
