"""The optimal partition selection: show each key with the largest probability that (ε, δ) per key allows [DVGM22].

π₀ = 0 and π_{n+1} = min(e^ε·π_n + δ, 1 − e^-ε·(1 − π_n − δ), 1): the first two are the two directions of (ε, δ) for "shown"
and "not shown" between n + 1 and n units; as π never falls, the other two conditions hold of themselves. Each step may be
rounded down without breaking any of them (the next step starts from the rounded value), so the probabilities drawn here are
exact numbers of 256 bits (more for a tiny δ) that are (ε, δ)-private as they stand, at most 2^-255·n·e^{nε} below the
optimum. The law is that of truncated geometric noise and a threshold.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from math import ceil
from typing import Any

import numpy as np

from discreet.accounting.elementary import exp_neg_bounds, log_bounds
from discreet.errors import BadParameter
from discreet.exact import Number, read_positive, read_probability, shown
from discreet.loss import KeepLoss
from discreet.mechanisms.quantile import allowed_tail
from discreet.mechanisms.threshold import counts_of, groups_of
from discreet.mechanisms.values import Values
from discreet.noise import SYSTEM, Bits
from discreet.noise.lazy import Uniform
from discreet.units import Sensitivity

PRECISION = 256
SPARE = 96
"""Bits that δ itself keeps: a δ below 2^-160 makes the numbers longer."""

LONGEST = 1 << 20


@dataclass(frozen=True, slots=True, init=False)
class OptimalThreshold:
    """Shows a key with the probability π of its count of distinct units, (ε, δ)-private per key.

    >>> rule = OptimalThreshold.for_epsilon(1, 1e-6, sensitivity=1)
    >>> rule.release([1000, 0]), rule.error(confidence=0.5)
    ([True, False], 14.0)
    """

    epsilon: Fraction
    delta: Fraction

    def __init__(self, epsilon: Number, delta: Number) -> None:
        object.__setattr__(self, "epsilon", read_positive(epsilon, "epsilon"))
        object.__setattr__(self, "delta", read_probability(delta, "delta"))

    @classmethod
    def for_epsilon(cls, epsilon: Number, delta: Number, sensitivity: Sensitivity | Number) -> "OptimalThreshold":
        """ε and δ are divided over the l0 keys of a unit (basic composition)."""
        groups = groups_of(sensitivity)
        return cls(read_positive(epsilon, "epsilon") / groups, read_probability(delta, "delta") / groups)

    def release(self, values: Values, bits: Bits | None = None) -> Any:
        """For each count, whether its key may be shown. A count of 0 is a key that nobody has: never."""
        counts, restore = counts_of(values)
        chances, source = probabilities(self.epsilon, self.delta), SYSTEM if bits is None else bits
        places = precision(self.delta)
        leading = np.array([chance >> (places - 64) for chance in chances], np.uint64)
        words = source.words(counts.size).reshape(counts.shape)
        index = np.clip(counts, 0, len(chances) - 1)
        kept = words < leading[index]
        for i in np.flatnonzero((words == leading[index]) & (counts < len(chances))):
            chance = partial(_bounds, chances[int(index.flat[i])], places)
            kept.flat[i] = Uniform(source, int(words.flat[i]), 64).below(chance)
        return restore(kept | (counts >= len(chances)))

    def loss(self, sensitivity: Sensitivity | Number, grid: Number = 1) -> KeepLoss:
        """What a selection costs when one unit is counted once in at most l0 keys."""
        return KeepLoss(self.epsilon, self.delta, groups_of(sensitivity))

    def error(self, confidence: Number, size: int = 1) -> float:
        """All of `size` keys with at least this many units are shown with the given confidence."""
        one = 1 << precision(self.delta)
        enough = one - int(Fraction(allowed_tail(confidence, size)) * one)
        chances = probabilities(self.epsilon, self.delta)
        return float(next((n for n, chance in enumerate(chances) if chance >= enough), len(chances)))


def precision(delta: Fraction) -> int:
    """How many bits the probabilities have."""
    return max(PRECISION, SPARE + delta.denominator.bit_length() - delta.numerator.bit_length())


@lru_cache(maxsize=16)
def probabilities(epsilon: Fraction, delta: Fraction) -> tuple[int, ...]:
    """2^precision·π_n for n = 0, 1, … while it is below 1; every later count is shown for certain."""
    # π grows like δ·e^{nε} to about ½, and 1 − π falls in the same way: about 2·ln(1 + ε/δ)/ε counts.
    if 2 * log_bounds(1 + epsilon / (2 * delta))[0] > LONGEST * epsilon:
        raise BadParameter(
            "epsilon",
            shown(epsilon),
            f"with δ = {shown(delta)} needs a table of more than a million counts",
            "use Threshold, or take a larger epsilon or delta",
        )
    one = 1 << precision(delta)
    shrink = ceil(exp_neg_bounds(epsilon)[1] * one)  # e^-ε, rounded up
    slip = int(delta * one)
    chances = [0]
    while True:
        last = chances[-1]
        following = min(last * one // shrink + slip, one - -(-(one - last - slip) * shrink // one))
        if following >= one or last + slip >= one:
            return tuple(chances)
        chances.append(max(last, following))


def _bounds(chance: int, places: int, wanted: int) -> tuple[int, int]:
    """The probability chance/2^places in units of 2^-wanted, rounded down and up."""
    scaled = chance << wanted
    return scaled >> places, -(-scaled >> places)
