"""RAPPOR [EPK14]: texts as Bloom filters, with permanent and instantaneous noise.

**Client.** A device draws a cohort once. A text sets `hashes` h of `size` k bits (fewer where they collide), by public
functions of its cohort. Permanent noise: each bit becomes 1 with probability f/2, 0 with probability f/2, and stays
otherwise; it is repeated for the same Bloom filter. Instantaneous noise: a 1 is sent as 1 with probability q, a 0 with
probability p. A bit that is set is thus sent as 1 with probability q* = f(p + q)/2 + (1 − f)·q, any other with
p* = f(p + q)/2 + (1 − f)·p.

**ε of one report, and ε_∞, and why only one has the factor 2.** Two texts differ in at most h bits that only the first sets,
and h that only the second sets. In one report a bit of the first kind counts q*/p* at most, one of the second
(1 − p*)/(1 − q*): ε_1 = h·ln(q*(1 − p*)/(p*(1 − q*))) has both in its fraction. The permanent noise treats 0 and 1 alike, so
every bit that differs counts (1 − f/2)/(f/2), and there are 2h of them: ε_∞ = 2h·ln((1 − f/2)/(f/2)). Both are for disjoint
filters, which is the worst case; with fewer than 2h bits in all, no more than all of them differ.

ε_∞ is for one Bloom filter, between histories with the same pattern of changes (`longitudinal`).

Reports are counted here; `rappor_decoding` estimates texts from the counts, `rappor_unknown` finds texts outside any list.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import lcm
from typing import Any

import msgspec
import numpy as np

from discreet._numbers import check_int, format_rational
from discreet.errors import BadParameter, BadValues
from discreet.events import Event, SetResponseEvent
from discreet.local.hashing import fingerprint, hash_point, hash_texts
from discreet.local.longitudinal import (
    LongitudinalOracle,
    State,
    bound_event,
    count_ones,
    pack_bits,
    respond_event,
    unpack_bits,
    word_fields,
)
from discreet.local.oracles import Field, Report
from discreet.noise.bits import Bits, Ints
from discreet.noise.uniform import uniform_below

MAX_BITS = 1 << 12


class Rappor(LongitudinalOracle, frozen=True, tag="rappor"):
    """RAPPOR with `size` k bits, `hashes` h, `cohorts` m, and the noise f, p, q as exact fractions.

    Floats and texts are read as decimals or fractions: 0.75 and "3/4" are 3/4.

    >>> rappor = Rappor(128, 2, 64, Fraction(1, 2), Fraction(1, 2), Fraction(3, 4), "2026-11")
    >>> rappor.truth_support, rappor.other_support
    (Fraction(11, 16), Fraction(9, 16))
    >>> round(rappor.epsilon, 6), round(rappor.lifetime().epsilon, 6)
    (1.074286, 4.394449)
    >>> Rappor(128, 2, 64, 0.5, "1/2", 0.75, "2026-11") == rappor
    True
    """

    size: int
    hashes: int
    cohorts: int
    f: Fraction
    p: Fraction
    q: Fraction
    salt: str = ""

    def check(self) -> None:
        """Refuse noise that is no probability, or that hides nothing."""
        if not 2 <= check_int(self.size, "size", 2) <= MAX_BITS:
            raise BadParameter("size", self.size, f"more than {MAX_BITS}", "lower it")
        check_int(self.hashes, "hashes", 1)
        check_int(self.cohorts, "cohorts", 1)
        if not 0 <= self.f < 1:
            raise BadParameter(
                "f", format_rational(self.f), "not from 0 to below 1", "give the probability of permanent noise"
            )
        if not 0 <= self.p < self.q <= 1:
            raise BadParameter(
                "p", format_rational(self.p), f"not from 0 to below q = {format_rational(self.q)}, which is at most 1",
                "send 1 more often for a 1",
            )  # fmt: skip
        if not (self.other_support > 0 and self.truth_support < 1):
            raise BadParameter("f", 0, "reports would have no ε", "raise f, or take 0 < p and q < 1")

    @property
    def values(self) -> int | None:
        """None: any text, as bytes."""
        return None

    @property
    def fields(self) -> tuple[Field, ...]:
        """The cohort, and the bits in words of 32."""
        return (Field("c", self.cohorts), *word_fields(self.size))

    @property
    def device_moduli(self) -> tuple[int, ...]:
        """The cohort."""
        return (self.cohorts,)

    @property
    def permanent_moduli(self) -> tuple[int, ...]:
        """One coin a bit."""
        return ((self.f / 2).denominator,) * self.size

    @property
    def moduli(self) -> tuple[int, ...]:
        """One coin a bit."""
        return (lcm(self.p.denominator, self.q.denominator),) * self.size

    def filter(self, text: Any, cohort: int) -> tuple[int, ...]:
        """Return the bits that a text, as bytes or in UTF-8, sets in a cohort, ascending."""
        point = fingerprint(to_bytes(text), self.salt)
        first = cohort * self.hashes
        return tuple(sorted({hash_point(point, self.salt, first + i, self.size) for i in range(self.hashes)}))

    def filter_all(self, texts: Sequence[Any]) -> Ints:
        """Return the bits that texts set: one row for each cohort and hash, one column a text."""
        return hash_texts([to_bytes(text) for text in texts], self.salt, self.cohorts * self.hashes, self.size)

    def encode(self, value: Any, device: Sequence[int]) -> State:
        """The state is the cohort and the Bloom filter."""
        chosen = self.filter(value, device[0])
        return (device[0], *pack_bits([place in chosen for place in range(self.size)]))

    def select_permanent(self, state: State, drawn: Sequence[int]) -> State:
        """Draw each bit: 1 with probability 1 − f/2 if it is set, f/2 if not."""
        return (state[0], *_redraw(state[1:], drawn, self.permanent_moduli[0], 1 - self.f / 2, self.f / 2))

    def select(self, state: State, drawn: Sequence[int]) -> Report:
        """Draw each bit: 1 with probability q if it is set, p if not."""
        return (state[0], *_redraw(state[1:], drawn, self.moduli[0], self.q, self.p))

    # Privacy

    @property
    def truth_support(self) -> Fraction:
        """q*: the probability that a set bit is sent as 1."""
        return self.f * (self.p + self.q) / 2 + (1 - self.f) * self.q

    @property
    def other_support(self) -> Fraction:
        """p*: the probability that another bit is sent as 1."""
        return self.f * (self.p + self.q) / 2 + (1 - self.f) * self.p

    @property
    def _only_one(self) -> int:
        """How many bits at most one filter sets and another does not: every filter has a bit."""
        return min(self.hashes, self.size - 1)

    def _filter_odds(self, set_odds: Fraction, clear_odds: Fraction) -> Fraction:
        """Odds of all bits of two filters: so much for a bit that only the first sets, so much for one of the second."""
        each = self._only_one
        both = min(2 * each, self.size)
        more, less = max(set_odds, clear_odds), min(set_odds, clear_odds)
        return more**each * less ** (both - each)

    @property
    def report_odds(self) -> Fraction:
        """e^{ε_1}."""
        p, q = self.other_support, self.truth_support
        return self._filter_odds(q / p, (1 - p) / (1 - q))

    @property
    def permanent_odds(self) -> Fraction | None:
        """e^{ε_∞}."""
        return self._filter_odds((2 - self.f) / self.f, (2 - self.f) / self.f) if self.f else None

    @property
    def instantaneous_odds(self) -> Fraction | None:
        """Odds of the fresh noise between any two memoised states, which can differ in all bits.

        Without permanent noise the states are filters, and a report is the fresh noise.
        """
        if not self.f:
            return self.report_odds
        return None if self._fresh_bit_odds is None else self._fresh_bit_odds**self.size

    @property
    def _fresh_bit_odds(self) -> Fraction | None:
        """Odds of the fresh noise of one bit."""
        if not self.p or self.q == 1:
            return None
        return max(self.q / self.p, (1 - self.p) / (1 - self.q))

    def report_event(self) -> Event:
        """Return the event of one report on its own.

        With room for disjoint filters, it is that of `hashes` reports of one bit each [basic RAPPOR]: every pair of filters
        is a part of such a pair. Else only ε is stated.
        """
        return self._filters_event(self.truth_support, self.other_support, self.report_odds)

    def permanent_event(self) -> Event:
        """Return the event of the permanent noise for one Bloom filter."""
        if self.permanent_odds is None:
            return super().permanent_event()
        return self._filters_event(1 - self.f / 2, self.f / 2, self.permanent_odds)

    def instantaneous_event(self) -> Event | None:
        """Return the event of the fresh noise on any memoised state: an answer yes or no for each bit."""
        if not self.f:
            return self.report_event()
        return None if self._fresh_bit_odds is None else respond_event(self._fresh_bit_odds) * self.size

    def _filters_event(self, truth: Fraction, other: Fraction, odds: Fraction) -> Event:
        if self.size < 2 * self.hashes:
            return bound_event(odds)
        one = SetResponseEvent(truth * (1 - other) / (other * (1 - truth)), other, other**2)
        return one if self.hashes == 1 else one * self.hashes

    # Estimates

    @property
    def null_variance(self) -> Fraction:
        """The variance, per report of a cohort, of the count of people who set a bit that none of them sets."""
        p, q = self.other_support, self.truth_support
        return p * (1 - p) / (q - p) ** 2

    def bit_variance(self, n: int, holders: int) -> Fraction:
        """Return the variance of the count of people who set a bit that so many of n in a cohort set."""
        p, q = self.other_support, self.truth_support
        return (holders * q * (1 - q) + (n - holders) * p * (1 - p)) / (q - p) ** 2

    def count(self, reports: Iterable[Report]) -> "BitCounts":
        """Count reports by cohort, and ones by cohort and bit."""
        sizes, ones = np.zeros(self.cohorts, np.int64), np.zeros((self.cohorts, self.size), np.int64)
        for cohort, *words in reports:
            sizes[cohort] += 1
            ones[cohort] += np.array(unpack_bits(words, self.size))
        return BitCounts(sizes, ones)

    def draw_counts(self, texts: Sequence[Any], holders: Sequence[int], bits: Bits | None = None) -> "BitCounts":
        """Draw one report for each of `holders` many people of each text; return their counts."""
        sizes, held = np.zeros(self.cohorts, np.int64), np.zeros((self.cohorts, self.size), np.int64)
        table = self.filter_all(texts).reshape(self.cohorts, -1, len(texts))
        for column, people in enumerate(holders):
            spread = np.bincount(uniform_below(self.cohorts, int(people), bits), minlength=self.cohorts)
            sizes += spread
            sets = np.zeros_like(held, np.bool_)
            sets[np.arange(self.cohorts)[:, None], table[:, :, column]] = True
            held += sets * spread[:, None]
        rates = self.truth_support, self.other_support
        ones = [count_ones(int(n), row, *rates, bits) for n, row in zip(sizes, held, strict=True)]
        return BitCounts(sizes, np.array(ones))

    def estimate_bits(self, counts: "BitCounts") -> list[list[Fraction]]:
        """Return the unbiased counts of people who set each bit, by cohort."""
        p, q = self.other_support, self.truth_support
        return [
            [(int(ones) - p * int(n)) / (q - p) for ones in row]
            for n, row in zip(counts.sizes, counts.ones, strict=True)
        ]  # fmt: skip


def to_bytes(text: Any) -> bytes:
    """Return the bytes of a text, in UTF-8.

    >>> to_bytes("é") == to_bytes("é".encode())
    True
    """
    if isinstance(text, bytes | bytearray):
        return bytes(text)
    try:
        return text.encode()  # type: ignore[no-any-return]
    except (AttributeError, UnicodeEncodeError):
        raise BadValues("are not all texts", "give text in Unicode, or bytes") from None


class BasicRappor(Rappor, frozen=True, tag="basic rappor"):
    """Basic RAPPOR: value v sets bit v. No hashing: `hashes` and `cohorts` are 1.

    >>> rappor = BasicRappor.of(3, Fraction(1, 2), Fraction(1, 2), Fraction(3, 4))
    >>> rappor.encode(2, (0,)), round(rappor.epsilon, 6), round(rappor.lifetime().epsilon, 6)
    ((0, 4), 0.537143, 2.197225)
    """

    @classmethod
    def of(cls, values: int, f: Fraction, p: Fraction, q: Fraction) -> "BasicRappor":
        """Take one bit for each value."""
        return cls(values, 1, 1, f, p, q)

    def check(self) -> None:
        """Refuse hashes and cohorts."""
        super().check()
        if self.hashes != 1 or self.cohorts != 1:
            raise BadParameter("hashes", self.hashes, "basic RAPPOR has one bit a value", "use BasicRappor.of, or Rappor")

    @property
    def values(self) -> int | None:
        """k."""
        return self.size

    def variance(self, n: int, holders: int = 0) -> Fraction:
        """Return the variance of the estimated number of people with a value that so many of n have."""
        return self.bit_variance(n, holders)

    def filter(self, text: Any, cohort: int) -> tuple[int, ...]:
        """Return the bit of a value."""
        return (check_int(text, "value", 0),)

    def filter_all(self, texts: Sequence[Any]) -> Ints:
        """Return the bits of values."""
        return np.array([texts], np.int64)


class BitCounts(msgspec.Struct, frozen=True):
    """What decoding needs of all reports: how many each cohort sent, and the ones of each cohort and bit."""

    sizes: Ints
    ones: Ints

    def __add__(self, other: "BitCounts") -> "BitCounts":
        return BitCounts(self.sizes + other.sizes, self.ones + other.ones)

    @property
    def n(self) -> int:
        """The number of reports."""
        return int(self.sizes.sum())


def _redraw(words: Sequence[int], drawn: Sequence[int], modulus: int, truth: Fraction, other: Fraction) -> tuple[int, ...]:
    """Draw each bit anew: 1 with probability `truth` if it is set, `other` if not."""
    high, low = int(truth * modulus), int(other * modulus)
    bits = unpack_bits(words, len(drawn))
    return pack_bits([number < (high if bit else low) for bit, number in zip(bits, drawn, strict=True)])
