"""Mechanisms that repeat their noise: what RAPPOR and Microsoft's telemetry share.

**Theory of operation.** A device draws in three steps, each with its own fixed list of moduli:

1. *device*: once for life (a cohort, a rounding point, which buckets are observed);
2. *permanent*: once for each state that the value takes on this device, and the same again when the state comes back;
3. *instantaneous*: afresh for each report.

`encode` turns a value into its state, `select_permanent` a state into the memoised one, `select` that into a report.

**What is guaranteed.** One report on its own is ε-private with the ε of `epsilon`. Over a life, two statements hold:

- *any two histories*: T reports are T·ε-private with the ε of the instantaneous step (∞ without one). **Proof.** Given the
  memo, reports are independent, and report t has the distribution K(σ_t) of the memoised state σ_t. So
  P_H(o) = E_σ Π K(σ_t)(o_t) ≤ Π max_σ K(σ)(o_t) ≤ e^{Tε} Π min_σ K(σ)(o_t) ≤ e^{Tε} P_{H'}(o).
- *histories with the same pattern of changes*: V states are V·ε-private with the ε of the permanent step, for any number of
  reports. **Proof.** If both histories have equal states at the same pairs of times, the reports are the same function of V
  independent memoised states and of fresh noise, and each memoised state is ε-private for its own state.

The second statement says nothing of *when* a value changes or comes back: without an instantaneous step, two different
reports prove a change. It is never used without its condition (`LifetimeEpsilon`, `client.Spent`); no ledger takes it, and a
device's limit counts it only if its owner says so (`store`).
"""

from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from math import inf, lcm
from typing import Any, TypeAlias

import msgspec
import numpy as np

from discreet._numbers import ceil_float, check_int
from discreet.accounting.elementary import log_bounds
from discreet.accounting.lifetime import LifetimeEpsilon
from discreet.errors import BadParameter
from discreet.events import Claim, Event, Memoised, SetResponseEvent
from discreet.local.draws import MAX_MODULUS, Draws, draw_all
from discreet.local.odds import epsilon_of_odds, make_fields_exact
from discreet.local.oracles import WORD_BITS, Field, Report
from discreet.noise.bits import Bits, Ints
from discreet.noise.uniform import uniform_below

State: TypeAlias = tuple[int, ...]

BLOCK = 1 << 22
"""How many coins are held at a time."""

SAME_PATTERN = "between two histories with the same pattern of changes: equal states at the same times"
"""The condition of every ε for life that memoisation gives. States are what is memoised: a Bloom filter, a rounded value."""


class LongitudinalOracle(msgspec.Struct, frozen=True):
    """The base of mechanisms with a device step, a permanent step and an instantaneous one."""

    def __post_init__(self) -> None:
        make_fields_exact(self)
        self.check()
        if (largest := max(1, *self.device_moduli, *self.permanent_moduli, *self.moduli)) > MAX_MODULUS:
            raise BadParameter(
                type(self).__name__, f"a draw below {largest}", "clients draw below 2**53", "take fractions of smaller terms"
            )

    def check(self) -> None:
        """Refuse parameters that this mechanism cannot have."""

    # Reports

    @property
    @abstractmethod
    def values(self) -> int | None:
        """How many values there are: a value is an integer below it. None: a value is any text, as bytes of UTF-8."""

    @property
    @abstractmethod
    def fields(self) -> tuple[Field, ...]:
        """The integers of a report."""

    @property
    @abstractmethod
    def device_moduli(self) -> tuple[int, ...]:
        """The numbers below which a device draws once for life."""

    @property
    @abstractmethod
    def permanent_moduli(self) -> tuple[int, ...]:
        """The numbers below which a device draws once for each state."""

    @property
    @abstractmethod
    def moduli(self) -> tuple[int, ...]:
        """The numbers below which a device draws for each report."""

    @abstractmethod
    def encode(self, value: Any, device: Sequence[int]) -> State:
        """Return the state of a value on a device that drew this: equal states have equal permanent noise."""

    @abstractmethod
    def select_permanent(self, state: State, drawn: Sequence[int]) -> State:
        """Make the memoised state, which holds all that `select` needs."""

    @abstractmethod
    def select(self, state: State, drawn: Sequence[int]) -> Report:
        """Make a report of a memoised state."""

    def draw(self, value: Any, draws: Draws) -> Report:
        """Draw the report of a device that reports once: all three steps afresh, before the value is looked at."""
        device = draw_all(draws, self.device_moduli)
        permanent, fresh = draw_all(draws, self.permanent_moduli), draw_all(draws, self.moduli)
        return self.select(self.select_permanent(self.encode(value, device), permanent), fresh)

    def is_valid(self, report: Report) -> bool:
        """Whether every integer of a report is in its range."""
        return len(report) == len(self.fields) and all(
            0 <= number < field.below for number, field in zip(report, self.fields, strict=True)
        )

    @property
    def bits(self) -> int:
        """The bits of a report on the wire."""
        return sum(max(1, (field.below - 1).bit_length()) for field in self.fields)

    # Privacy

    @property
    @abstractmethod
    def report_odds(self) -> Fraction:
        """How much likelier one report is under one value than under another, at most: e^ε of a single report."""

    @property
    @abstractmethod
    def permanent_odds(self) -> Fraction | None:
        """e^ε of the permanent step for one state; None if there is no limit."""

    @property
    @abstractmethod
    def instantaneous_odds(self) -> Fraction | None:
        """e^ε of the instantaneous step between any two memoised states; None if there is no limit."""

    @property
    def epsilon(self) -> float:
        """ε of one report on its own, rounded up."""
        return epsilon_of_odds(self.report_odds)

    def lifetime(self, states: int = 1, reports: int | None = None) -> LifetimeEpsilon:
        """Return ε of so many reports in `states` states, with the condition under which it holds; None: of any number.

        `unconditional` is what holds between any two histories.
        """
        check_int(states, "states", 1)
        odds = self.permanent_odds
        anything = inf if reports is None else self.epsilon_of_reports(reports)
        given = inf if odds is None else ceil_float(states * log_bounds(odds)[1])
        return LifetimeEpsilon(min(given, anything), anything, SAME_PATTERN)

    def epsilon_of_reports(self, reports: int) -> float:
        """Return ε of so many reports between any two histories, rounded up: unconditional, and it grows with each."""
        if check_int(reports, "reports", 1) == 1:
            return self.epsilon
        odds = self.instantaneous_odds
        return inf if odds is None else ceil_float(reports * log_bounds(odds)[1])

    def report_event(self) -> Event:
        """Return the event of one report on its own, without the mark of its memo: it adds up with no other report."""
        return bound_event(self.report_odds)

    def event(self, memo: str = "") -> Event:
        """Return the event of one report on its own, marked as one of a memo; `memo` labels it, as a collection's id does.

        Composition and accounts refuse it beside another report of the same memo: `memoised_event` counts several. Without
        permanent noise nothing is memoised, and reports are independent.
        """
        if max(1, *self.permanent_moduli) == 1:
            return self.report_event()
        permanent = Claim(Fraction(0), Fraction(1)) if self.permanent_odds is None else self.permanent_event()
        return Memoised(self.report_event(), permanent, self.instantaneous_event(), 1, 1, memo)

    def permanent_event(self) -> Event:
        """Return the event of the permanent step for one state.

        Raises:
            BadParameter: there is no permanent noise, so no ε for a state.
        """
        if self.permanent_odds is None:
            raise BadParameter(type(self).__name__, "without permanent noise", "a state has no ε", "count every report")
        return bound_event(self.permanent_odds)

    def instantaneous_event(self) -> Event | None:
        """Return the event of the fresh step, as a mechanism on any memoised state; None if it hides nothing."""
        return None if self.instantaneous_odds is None else bound_event(self.instantaneous_odds)

    def memoised_event(self, reports: int, states: int = 1, memo: str = "") -> Memoised:
        """Return the event of so many reports of one device, in which its value takes `states` states."""
        check_int(reports, "reports", 1)
        check_int(states, "states", 1)
        return Memoised(self.report_event(), self.permanent_event(), self.instantaneous_event(), reports, states, memo)


def respond_event(odds: Fraction) -> SetResponseEvent:
    """Return the event of an answer yes or no with these odds, or of a mixture of the two answers.

    >>> respond_event(Fraction(3)).share
    Fraction(1, 2)
    """
    return SetResponseEvent(odds, Fraction(1, 2), Fraction(0))


def bound_event(odds: Fraction) -> Claim:
    """Return the event of a report of which only these odds are stated.

    An answer yes or no with the same odds reveals no less about one person [KOV15], but that does not carry over to a
    shuffled crowd, where the reports of others decide how well they hide a person. A claim is accounted for in a crowd by
    what every mechanism of its ε guarantees.

    >>> bound_event(Fraction(3)).delta
    Fraction(0, 1)
    """
    return Claim(Fraction(epsilon_of_odds(odds)), Fraction(0))


def count_ones(n: int, held: Ints, truth: Fraction, other: Fraction, bits: Bits | None = None) -> Ints:
    """Draw how many of n people send a 1 for each bit: `held` set it and send it with probability `truth`, others `other`.

    >>> count_ones(5, np.array([0, 5]), Fraction(1), Fraction(0)).tolist()
    [0, 5]
    """
    modulus = lcm(truth.denominator, other.denominator)
    high, low = int(truth * modulus), int(other * modulus)
    ones, block = np.zeros(len(held), np.int64), max(1, BLOCK // max(1, n))
    for start in range(0, len(held), block):
        part = held[start : start + block, None]
        coins = uniform_below(modulus, part.size * n, bits).reshape(part.size, n)
        ones[start : start + block] = (coins < np.where(np.arange(n) < part, high, low)).sum(axis=1)
    return ones


def word_fields(bits: int, prefix: str = "w") -> tuple[Field, ...]:
    """Return the columns that hold so many bits, in words of 32; bit i of word k is bit 32·k + i.

    >>> [(field.name, field.below) for field in word_fields(40)]
    [('w0', 4294967296), ('w1', 256)]
    """
    full, rest = divmod(bits, WORD_BITS)
    widths = [WORD_BITS] * full + [rest] * (rest > 0)
    return tuple(Field(f"{prefix}{place}", 1 << width) for place, width in enumerate(widths))


def pack_bits(bits: Sequence[bool | int]) -> tuple[int, ...]:
    """Pack bits into words of 32.

    >>> pack_bits([1, 0, 1])
    (5,)
    """
    words = [0] * -(-len(bits) // WORD_BITS)
    for place, bit in enumerate(bits):
        words[place // WORD_BITS] |= int(bit) << place % WORD_BITS
    return tuple(words)


def unpack_bits(words: Sequence[int], bits: int) -> tuple[int, ...]:
    """Unpack so many bits from words of 32.

    >>> unpack_bits((5,), 4)
    (1, 0, 1, 0)
    """
    return tuple(words[place // WORD_BITS] >> place % WORD_BITS & 1 for place in range(bits))
