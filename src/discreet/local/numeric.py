"""Means and histograms of numbers, with one bit or a few bits a person [DKY17].

**One bit for a mean** (`OneBitMean`). A person with x in 0 … m sends 1 with probability 1/(X+1) + (x/m)·(X−1)/(X+1). As a
fraction that is (b·m + (a−b)·x)/((a+b)·m) for X = a/b, so the coin is exact. The extremes 0 and m are a randomized response
of odds X, and every x is a mixture of the two: ε = ln X. The estimate (m/n)·Σ(bit·(X+1) − 1)/(X − 1) of the mean is
unbiased. `DuchiMean` is the same report, read on [−1, 1].

**Rounding with memoisation** (`RoundedBit`, 1BitRRPM). A device draws α in 0 … s−1 once and rounds x to s·⌊(x + α)/s⌋, which
is x on average over α. It draws one bit for each of the m/s + 1 rounded values, once, and repeats it. s has to divide m:
with a last step that is shorter, rounding would be biased.

**A few buckets** (`BucketFlip`, dBitFlip and dBitFlipPM). A device draws d of k buckets once, and sends one bit for each:
whether its value is in it, kept with probability z/(z + 1). Two values differ in at most two of the bits: ε = 2·ln z. With
d = 1 they differ in one: ε = ln z, half of what the paper states. A device has d + 1 states: in one of the observed
buckets, or in none.

**Output flip.** With γ > 0 each bit of each report is flipped with probability γ. A bit of odds X then has the odds
((1−γ)X + γ)/(γX + 1 − γ), and everything above holds with them: subtracting γ and dividing by 1 − 2γ is the same estimate.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import pairwise
from math import exp, inf

import msgspec
import numpy as np
from numpy.typing import NDArray

from discreet._numbers import Number, ceil_float, check_int, check_probability, format_rational, sqrt_up
from discreet.accounting.elementary import log_bounds
from discreet.errors import BadParameter, BadValues
from discreet.events import Event, SetResponseEvent
from discreet.local.draws import MAX_MODULUS, Draws, draw_all
from discreet.local.longitudinal import (
    LongitudinalOracle,
    State,
    bound_event,
    pack_bits,
    respond_event,
    unpack_bits,
    word_fields,
)
from discreet.local.odds import epsilon_of_odds, make_fields_exact, read_odds
from discreet.local.oracles import Field, Report
from discreet.noise.bits import Bits, Ints
from discreet.noise.uniform import uniform_below


class OneBitMean(msgspec.Struct, frozen=True, tag="one-bit mean"):
    """One bit for the mean of integers from 0 to `top` [DKY17, 1BitMean].

    >>> mean = OneBitMean(10, Fraction(3))
    >>> mean.probability(0), mean.probability(5), mean.probability(10)
    (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4))
    >>> mean.estimate(ones=60, n=100)
    Fraction(7, 1)
    """

    top: int
    odds: Fraction

    def __post_init__(self) -> None:
        make_fields_exact(self)
        check_int(self.top, "top", 1)
        read_odds(self.odds)
        if self.moduli[0] > MAX_MODULUS:
            raise BadParameter("top", self.top, "too large for exact coins with these odds", "take coarser units")

    @property
    def values(self) -> int:
        """m + 1: the values are 0 … m."""
        return self.top + 1

    @property
    def fields(self) -> tuple[Field, ...]:
        """The bit."""
        return (Field("b", 2),)

    @property
    def bits(self) -> int:
        """The bits of a report on the wire."""
        return 1

    @property
    def moduli(self) -> tuple[int, ...]:
        """One coin."""
        return ((self.odds.numerator + self.odds.denominator) * self.top,)

    def select(self, value: int, drawn: Sequence[int]) -> Report:
        """Send 1 for so many of the draws."""
        return (int(drawn[0] < self._heads(value)),)

    def draw(self, value: int, draws: Draws) -> Report:
        """Draw the report of one person."""
        if check_int(value, "value") > self.top:
            raise BadParameter("value", value, f"above {self.top}", "clip it first")
        return self.select(value, draw_all(draws, self.moduli))

    def is_valid(self, report: Report) -> bool:
        """Whether a report is one bit."""
        return len(report) == 1 and report[0] in (0, 1)

    def draw_many(self, values: Ints, bits: Bits | None = None) -> NDArray[np.bool_]:
        """Draw the bits of many people."""
        if values.size and not 0 <= values.min() <= values.max() <= self.top:
            raise BadValues(f"are not all from 0 to {self.top}", "clip them first")
        heads = self.odds.denominator * self.top + (self.odds.numerator - self.odds.denominator) * values.astype(np.int64)
        return uniform_below(self.moduli[0], values.size, bits) < heads

    def _heads(self, value: int) -> int:
        return self.odds.denominator * self.top + (self.odds.numerator - self.odds.denominator) * value

    @property
    def epsilon(self) -> float:
        """ε of one report, rounded up."""
        return epsilon_of_odds(self.odds)

    def event(self) -> SetResponseEvent:
        """Return the event of one report: that of a randomized response between 0 and `top`."""
        return respond_event(self.odds)

    @property
    def spread(self) -> Fraction:
        """c = (X + 1)/(X − 1): by how much a bit is stretched."""
        return (self.odds + 1) / (self.odds - 1)

    @property
    def span(self) -> Fraction:
        """The width of the range that is estimated."""
        return Fraction(self.top)

    def probability(self, value: int) -> Fraction:
        """Return the probability of a 1."""
        return Fraction(self._heads(value), self.moduli[0])

    def estimate(self, ones: int, n: int) -> Fraction:
        """Return the unbiased estimate of the mean from the number of ones among n reports."""
        check_int(n, "n", 1)
        return self.span * (ones * (self.odds + 1) - n) / (self.odds - 1) / n

    def variance(self, values: Iterable[int]) -> Fraction:
        """Return the variance of the estimated mean when people have these values."""
        chances = [self.probability(value) for value in values]
        return (self.span * self.spread / len(chances)) ** 2 * sum((p * (1 - p) for p in chances), Fraction(0))

    def worst_variance(self, n: int) -> Fraction:
        """Return the largest variance that n people can give: that of values in the middle."""
        return (self.span * self.spread) ** 2 / (4 * check_int(n, "n", 1))

    def half_width(self, n: int, confidence: Number) -> float:
        """Return a half-width that holds for any values, by Hoeffding's inequality [DKY17], rounded up."""
        miss = 1 - check_probability(confidence, "confidence")
        squared = (self.span * self.spread) ** 2 * log_bounds(2 / miss)[1] / (2 * check_int(n, "n", 1))
        return ceil_float(sqrt_up(squared))


class DuchiMean(OneBitMean, frozen=True, tag="duchi mean"):
    """The mean of numbers in [−1, 1] on a grid of top + 1 points, value v standing for 2v/top − 1 [DJW18].

    >>> mean = DuchiMean(2, Fraction(3))
    >>> mean.estimate(ones=75, n=100), mean.worst_variance(1)
    (Fraction(1, 1), Fraction(4, 1))
    """

    @property
    def span(self) -> Fraction:
        """2."""
        return Fraction(2)

    def estimate(self, ones: int, n: int) -> Fraction:
        """Return the unbiased estimate of the mean: the average of ±c."""
        return self.spread * (2 * ones - check_int(n, "n", 1)) / n


def flip_odds(odds: Fraction, gamma: Fraction) -> Fraction:
    """Return the odds of a bit that is flipped with probability γ afterwards.

    >>> flip_odds(Fraction(3), Fraction(1, 10))
    Fraction(7, 3)
    """
    return ((1 - gamma) * odds + gamma) / (gamma * odds + 1 - gamma)


def check_gamma(gamma: Fraction) -> None:
    """Refuse an output flip that is no probability, or that leaves no information."""
    if not 0 <= gamma < Fraction(1, 2):
        raise BadParameter("gamma", format_rational(gamma), "not from 0 to below 1/2", "give one between; 0 flips nothing")


class RoundedBit(LongitudinalOracle, frozen=True, tag="rounded bit"):
    """One memoised bit for the mean of integers from 0 to `top`, rounded to multiples of `step` [DKY17, 1BitRRPM].

    >>> mean = RoundedBit(24, 6, Fraction(3), Fraction(1, 10))
    >>> mean.encode(7, (5,)), mean.states, round(mean.epsilon, 6), round(mean.lifetime(2).epsilon, 6)
    ((2,), 5, 0.847298, 2.197225)
    """

    top: int
    step: int
    odds: Fraction
    gamma: Fraction = Fraction(0)

    def check(self) -> None:
        """Refuse a step that does not divide the range."""
        read_odds(self.odds)
        check_gamma(self.gamma)
        if check_int(self.top, "top", 1) % check_int(self.step, "step", 1):
            raise BadParameter("step", self.step, f"does not divide {self.top}, so rounding is biased", "take a divisor")

    @property
    def values(self) -> int:
        """m + 1: the values are 0 … m."""
        return self.top + 1

    @property
    def states(self) -> int:
        """m/s + 1: how many rounded values there are."""
        return self.top // self.step + 1

    @property
    def fields(self) -> tuple[Field, ...]:
        """The bit."""
        return (Field("b", 2),)

    @property
    def device_moduli(self) -> tuple[int, ...]:
        """α."""
        return (self.step,)

    @property
    def permanent_moduli(self) -> tuple[int, ...]:
        """One coin, as in `OneBitMean` over the rounded values."""
        return self._rounded.moduli

    @property
    def moduli(self) -> tuple[int, ...]:
        """One coin for the output flip; below 1 nothing is drawn."""
        return (self.gamma.denominator,)

    @property
    def _rounded(self) -> OneBitMean:
        return OneBitMean(self.top // self.step, self.odds)

    def encode(self, value: int, device: Sequence[int]) -> State:
        """Round: the state is the rounded value over s."""
        return ((value + device[0]) // self.step,)

    def select_permanent(self, state: State, drawn: Sequence[int]) -> State:
        """Draw the bit of a rounded value."""
        return self._rounded.select(state[0], drawn)

    def select(self, state: State, drawn: Sequence[int]) -> Report:
        """Flip the memoised bit or not."""
        return (state[0] ^ (drawn[0] < self.gamma.numerator),)

    def report_event(self) -> SetResponseEvent:
        """Return the event of one report: that of `mean`."""
        return respond_event(self.report_odds)

    def permanent_event(self) -> SetResponseEvent:
        """Return the event of the bit of one rounded value."""
        return respond_event(self.odds)

    def instantaneous_event(self) -> SetResponseEvent | None:
        """Return the event of the output flip."""
        return respond_event((1 - self.gamma) / self.gamma) if self.gamma else None

    @property
    def report_odds(self) -> Fraction:
        """The odds after the output flip."""
        return flip_odds(self.odds, self.gamma)

    @property
    def permanent_odds(self) -> Fraction:
        """X."""
        return self.odds

    @property
    def instantaneous_odds(self) -> Fraction | None:
        """(1 − γ)/γ."""
        return (1 - self.gamma) / self.gamma if self.gamma else None

    @property
    def mean(self) -> OneBitMean:
        """The mechanism that one report of a random device is: estimates and variances are its own.

        Averaged over α, the probability of a 1 is linear in x, so the bit is that of `OneBitMean` with the flipped odds.
        """
        return OneBitMean(self.top, self.report_odds)


class BucketFlip(LongitudinalOracle, frozen=True, tag="bucket flip"):
    """One bit for each of `observed` of `buckets` buckets, each kept with the odds `root` [DKY17, dBitFlip, dBitFlipPM].

    >>> flip = BucketFlip(32, 4, Fraction(2))
    >>> flip.encode(9, (1, 2, 7, 8)), flip.states
    ((1, 2, 7, 8, 0, 0, 0, 0), 5)
    >>> round(flip.epsilon, 6), flip.null_variance
    (1.386294, Fraction(16, 1))
    """

    buckets: int
    observed: int
    root: Fraction
    gamma: Fraction = Fraction(0)

    def check(self) -> None:
        """Refuse more observed buckets than there are."""
        check_gamma(self.gamma)
        if self.root <= 1:
            raise BadParameter("root", format_rational(self.root), "must be above 1", "raise it; ε is 2·ln(root)")
        if check_int(self.observed, "observed", 1) > check_int(self.buckets, "buckets", 2):
            raise BadParameter("observed", self.observed, f"more than the {self.buckets} buckets", "lower it")

    @property
    def values(self) -> int:
        """k: the values are bucket numbers."""
        return self.buckets

    @property
    def states(self) -> int:
        """How many states a device can take: one for each observed bucket, and one for all others, if there are others."""
        return min(self.observed + 1, self.buckets)

    @property
    def fields(self) -> tuple[Field, ...]:
        """The observed buckets, ascending, and their bits in words of 32."""
        return (*(Field(f"j{place}", self.buckets) for place in range(self.observed)), *word_fields(self.observed))

    @property
    def device_moduli(self) -> tuple[int, ...]:
        """A set of d buckets by Floyd's algorithm."""
        return tuple(range(self.buckets - self.observed + 1, self.buckets + 1))

    @property
    def permanent_moduli(self) -> tuple[int, ...]:
        """One coin an observed bucket."""
        return (self.root.numerator + self.root.denominator,) * self.observed

    @property
    def moduli(self) -> tuple[int, ...]:
        """One coin an observed bucket for the output flip."""
        return (self.gamma.denominator,) * self.observed

    def observe(self, device: Sequence[int]) -> tuple[int, ...]:
        """Return the buckets that a device observes, ascending."""
        chosen: list[int] = []
        for modulus, number in zip(self.device_moduli, device, strict=True):
            chosen.append(modulus - 1 if number in chosen else number)
        return tuple(sorted(chosen))

    def encode(self, value: int, device: Sequence[int]) -> State:
        """The state is the observed buckets and, for each, whether the value is in it."""
        observed = self.observe(device)
        return (*observed, *(int(bucket == value) for bucket in observed))

    def select_permanent(self, state: State, drawn: Sequence[int]) -> State:
        """Keep or flip each bit."""
        bits = zip(state[self.observed :], drawn, strict=True)
        return (*state[: self.observed], *(bit ^ (number >= self.root.numerator) for bit, number in bits))

    def select(self, state: State, drawn: Sequence[int]) -> Report:
        """Flip the memoised bits or not."""
        bits = [bit ^ (number < self.gamma.numerator) for bit, number in zip(state[self.observed :], drawn, strict=True)]
        return (*state[: self.observed], *pack_bits(bits))

    def is_valid(self, report: Report) -> bool:
        """Whether the buckets ascend."""
        observed = report[: self.observed]
        return super().is_valid(report) and all(one < two for one, two in pairwise(observed))

    @property
    def report_root(self) -> Fraction:
        """The odds of one bit after the output flip."""
        return flip_odds(self.root, self.gamma)

    @property
    def _differing(self) -> int:
        """In how many bits two values differ at most."""
        return min(2, self.observed)

    @property
    def report_odds(self) -> Fraction:
        """The odds of all bits that differ."""
        return self.report_root**self._differing

    @property
    def permanent_odds(self) -> Fraction:
        """z² (z with one observed bucket)."""
        return self.root**self._differing

    @property
    def instantaneous_odds(self) -> Fraction | None:
        """((1 − γ)/γ)^d: memoised states can differ in every bit."""
        return ((1 - self.gamma) / self.gamma) ** self.observed if self.gamma else None

    def report_event(self) -> Event:
        """Return the event of one report.

        It is a part of a report on all buckets, symmetric unary encoding, whose event bounds it. With one observed bucket
        that has twice the ε, and only ε is stated.
        """
        return self._bits_event(self.report_root)

    def permanent_event(self) -> Event:
        """Return the event of the memoised bits of one state."""
        return self._bits_event(self.root)

    def instantaneous_event(self) -> Event | None:
        """Return the event of the output flips: an answer yes or no for each observed bucket."""
        return respond_event((1 - self.gamma) / self.gamma) * self.observed if self.gamma else None

    def _bits_event(self, root: Fraction) -> Event:
        if self.observed == 1:
            return bound_event(root)
        return SetResponseEvent(root**2, 1 / (1 + root), 1 / (1 + root) ** 2)

    # Estimates

    def count(self, reports: Iterable[Report]) -> tuple[list[int], list[int]]:
        """Return, for each bucket, how many reports observed it and how many of these sent a 1."""
        asked, ones = [0] * self.buckets, [0] * self.buckets
        for report in reports:
            for bucket, bit in zip(report, unpack_bits(report[self.observed :], self.observed), strict=False):
                asked[bucket] += 1
                ones[bucket] += bit
        return asked, ones

    def draw_counts(self, values: Ints, bits: Bits | None = None) -> tuple[Ints, Ints]:
        """Draw one report for each of many people; return the counts of `count`."""
        observed = np.empty((values.size, self.observed), np.int64)
        for place, modulus in enumerate(self.device_moduli):
            number = uniform_below(modulus, values.size, bits)
            taken = (observed[:, :place] == number[:, None]).any(axis=1)
            observed[:, place] = np.where(taken, modulus - 1, number)
        root = self.report_root
        coins = uniform_below(root.numerator + root.denominator, observed.size, bits).reshape(observed.shape)
        sent = (observed == values[:, None]) ^ (coins >= root.numerator)
        asked = np.bincount(observed.ravel(), minlength=self.buckets)
        return asked, np.bincount(observed[sent], minlength=self.buckets)

    def estimate(self, asked: int, ones: int) -> Fraction:
        """Return the unbiased estimate of the number of people in a bucket."""
        root = self.report_root
        return Fraction(self.buckets, self.observed) * (int(ones) * (root + 1) - int(asked)) / (root - 1)

    @property
    def null_variance(self) -> Fraction:
        """The variance, per report, of the estimated number of people in a bucket that is empty: (k/d)·z/(z − 1)²."""
        return Fraction(self.buckets, self.observed) * self.report_root / (self.report_root - 1) ** 2

    def variance(self, n: int, holders: int = 0) -> Fraction:
        """Return the variance of the estimated number of people in a bucket that holds so many of n."""
        return n * self.null_variance + holders * (Fraction(self.buckets, self.observed) - 1)


def duchi_variance(epsilon: float) -> float:
    """Return the largest variance a person of `DuchiMean` on [−1, 1]: ((X + 1)/(X − 1))².

    >>> round(duchi_variance(1), 3)
    4.683
    """
    return ((exp(epsilon) + 1) / (exp(epsilon) - 1)) ** 2


def piecewise_variance(epsilon: float) -> float:
    """Return the largest variance a person of the piecewise mechanism [WXY19], for comparison: its reports are continuous.

    >>> round(piecewise_variance(1), 3)
    5.224
    """
    root = exp(epsilon / 2)
    return 1 / (root - 1) + (root + 3) / (3 * (root - 1) ** 2)


def hybrid_variance(epsilon: float) -> float:
    """Return the largest variance a person of the hybrid mechanism [WXY19], for comparison.

    It runs the piecewise mechanism with probability 1 − 1/z and Duchi's otherwise, which makes the variance the same for
    every x; where Duchi's alone has less, it is that.

    >>> round(hybrid_variance(1), 3), round(hybrid_variance(0.5), 2)
    (4.289, 16.67)
    """
    root = exp(epsilon / 2)
    return min(duchi_variance(epsilon), (root + 3) / (3 * root * (root - 1)) + duchi_variance(epsilon) / root)


def laplace_variance(epsilon: float) -> float:
    """Return the variance of Laplace noise on [−1, 1], for comparison: 8/ε².

    >>> laplace_variance(2)
    2.0
    """
    return 8 / epsilon**2 if epsilon else inf
