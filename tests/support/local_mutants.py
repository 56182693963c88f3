"""Wrong clients, as they were found in the field; a test or an audit must catch each.

Mechanisms that are wrong have the shape of right ones and claim their event. Wrong steps of a client are subclasses of
`Client` or of `Wire`, or functions in place of `draw_report`.
"""

from collections.abc import Sequence
from fractions import Fraction
from hashlib import sha256
from math import ceil
from typing import Any

from discreet.local.client import Client
from discreet.local.draws import Draws, below, draw_all
from discreet.local.mechanism import AnyMechanism, State, is_memoising
from discreet.local.oracles import WORD_BITS, Direct, Hashed, Report, Unary
from discreet.local.store import Entry
from discreet.local.wire import Form, Wire


class NeverClears(Unary, frozen=True, tag="never clears"):
    """The bit of the value is always 1, as in pure-ldp's RAPPOR: there is no ε."""

    def select(self, value: int, drawn: Sequence[int]) -> Report:
        words = list(super().select(value, drawn))
        words[value // WORD_BITS] |= 1 << value % WORD_BITS
        return tuple(words)


class SevenBitThresholds(Unary, frozen=True, tag="seven bits"):
    """Probabilities are cut to multiples of 1/128, as in RAPPOR's C++ client."""

    @property
    def moduli(self) -> tuple[int, ...]:
        return (128,) * self.values

    def select(self, value: int, drawn: Sequence[int]) -> Report:
        truth, other = int(self.truth_support * 128), int(self.bit_share * 128)
        words = [0] * len(self.fields)
        for place, number in enumerate(drawn):
            words[place // WORD_BITS] |= (number < (truth if place == value else other)) << place % WORD_BITS
        return tuple(words)


class LengthLeak(Unary, frozen=True, tag="length leak"):
    """The vector of bits ends with the value's word, as when its length is taken from the input."""

    def select(self, value: int, drawn: Sequence[int]) -> Report:
        return super().select(value, drawn)[: value // WORD_BITS + 1]


class ModuloHash(Hashed, frozen=True, tag="modulo hash"):
    """The hash is a byte of SHA-256 modulo the buckets: biased, and not independent."""

    def hash(self, function: int, value: int) -> int:
        return sha256(f"{function} {value}".encode()).digest()[0] % self.buckets


class FloatCoin(Direct, frozen=True, tag="float coin"):
    """The truth is kept if a random double is below the probability, rounded to a double of `grid` steps."""

    grid: int = 1 << 53

    @property
    def moduli(self) -> tuple[int, ...]:
        return (self.grid, self.values - 1)

    @property
    def keeping(self) -> Fraction:
        """The probability with which the truth is kept in fact."""
        return Fraction(ceil(float(self.truth_support) * self.grid), self.grid)

    def select(self, value: int, drawn: Sequence[int]) -> Report:
        if drawn[0] / self.grid < float(self.truth_support):
            return (value,)
        return (drawn[1] + (drawn[1] >= value),)


MUTANT_MECHANISMS: dict[str, AnyMechanism] = {
    "never clears": NeverClears(3, Fraction(3), Fraction(1, 4)),
    "seven-bit thresholds": SevenBitThresholds(2, Fraction(2), Fraction(1, 3)),
    "length leak": LengthLeak(40, Fraction(3), Fraction(1, 4)),
    "modulo-biased hash": ModuloHash(4, Fraction(2), 3),
    "float coin": FloatCoin(3, Fraction(3, 2), 1 << 8),
}
"""Every wrong mechanism, at a size at which its draws can be listed (except for the length leak)."""


def draw_modulo(draws: Draws, bound: int) -> int:
    """Draw below a bound by the remainder of as many bytes as it needs: biased unless the bound is a power of 256."""
    size = ((bound - 1).bit_length() + 7) // 8
    return int.from_bytes(draws.take(size), "big") % bound


def draw_lazily(oracle: Direct, value: int, draws: Draws) -> Report:
    """Draw whether to keep the value, and another one only if not: the bytes taken tell which it was."""
    a, b = oracle.odds.numerator, oracle.odds.denominator
    if below(draws, a + b * (oracle.values - 1)) < a:
        return (value,)
    other = below(draws, oracle.values - 1)
    return (other + (other >= value),)


def redraw_permanent(
    mechanism: AnyMechanism, value: Any, draws: Draws, secret: bytes, collection_id: str
) -> tuple[State, Report]:
    """Stand in for `draw_report`: draw the permanent noise anew for each report, as multi-freq-ldpy does."""
    del secret, collection_id
    assert is_memoising(mechanism)
    device = draw_all(draws, mechanism.device_moduli)
    permanent, fresh = draw_all(draws, mechanism.permanent_moduli), draw_all(draws, mechanism.moduli)
    state = mechanism.encode(value, device)
    return state, mechanism.select(mechanism.select_permanent(state, permanent), fresh)


class FreshRetry(Client):
    """A client that draws a new report for each retry, and charges only the first."""

    def report(self, value: str | int | None, occasion: str) -> bytes:
        with self.store.transaction() as state:
            entry = state.collections.setdefault(self.id, Entry())
            before = entry.reports, entry.spent
            again = entry.sent.pop(occasion, None) is not None
            if again:
                entry.reports, entry.spent = 0, 0
        message = super().report(value, occasion)
        if again:
            with self.store.transaction() as state:
                entry = state.collections[self.id]
                entry.reports, entry.spent = before
        return message


class UnpaddedWire(Wire):
    """Messages as long as their numbers happen to be."""

    def write(self, nonce: bytes, report: Sequence[int]) -> bytes:
        return self._write_plain(nonce, report) if self.form is Form.JSON else super().write(nonce, report)
