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
from discreet.exact import Number, format_rational, read_positive, read_probability
from discreet.loss import OptimalPartitionSelectionEvent
from discreet.mechanisms.quantile import tail_per_error
from discreet.mechanisms.threshold import groups_per_unit, read_counts
from discreet.mechanisms.values import Values
from discreet.noise import SYSTEM, Bits
from discreet.noise.lazy import LazyUniform
from discreet.units import Sensitivity

MIN_PROBABILITY_BITS = 256
DELTA_BITS = 96
"""Bits that δ itself keeps: a δ below 2^-160 makes the numbers longer."""

MAX_TABLE_LENGTH = 1 << 20


@dataclass(frozen=True, slots=True, init=False)
class OptimalPartitionSelection:
    """Shows a key with the probability π of its count of distinct units, (ε, δ)-private per key.

    >>> rule = OptimalPartitionSelection.for_epsilon(1, 1e-6, sensitivity=1)
    >>> rule.release([1000, 0]), rule.error(confidence=0.5)
    ([True, False], 14.0)
    """

    epsilon: Fraction
    delta: Fraction

    def __init__(self, epsilon: Number, delta: Number) -> None:
        object.__setattr__(self, "epsilon", read_positive(epsilon, "epsilon"))
        object.__setattr__(self, "delta", read_probability(delta, "delta"))

    @classmethod
    def for_epsilon(cls, epsilon: Number, delta: Number, sensitivity: Sensitivity | Number) -> "OptimalPartitionSelection":
        """ε and δ are divided over the l0 keys of a unit (basic composition)."""
        groups = groups_per_unit(sensitivity)
        return cls(read_positive(epsilon, "epsilon") / groups, read_probability(delta, "delta") / groups)

    def release(self, values: Values, bits: Bits | None = None) -> Any:
        """For each count, whether its key may be shown. A count of 0 is a key that nobody has: never."""
        counts, restore = read_counts(values)
        chances, source = selection_probabilities(self.epsilon, self.delta), SYSTEM if bits is None else bits
        places = probability_bits(self.delta)
        leading = np.array([chance >> (places - 64) for chance in chances], np.uint64)
        words = source.words(counts.size).reshape(counts.shape)
        index = np.clip(counts, 0, len(chances) - 1)
        kept = words < leading[index]
        for i in np.flatnonzero((words == leading[index]) & (counts < len(chances))):
            chance = partial(_probability_bounds, chances[int(index.flat[i])], places)
            kept.flat[i] = LazyUniform(source, int(words.flat[i]), 64).is_below(chance)
        return restore(kept | (counts >= len(chances)))

    def event(self, sensitivity: Sensitivity | Number, grid: Number = 1) -> OptimalPartitionSelectionEvent:
        """What a selection costs when one unit is counted once in at most l0 keys."""
        return OptimalPartitionSelectionEvent(self.epsilon, self.delta, groups_per_unit(sensitivity))

    def error(self, confidence: Number, size: int = 1) -> float:
        """All of `size` keys with at least this many units are shown with the given confidence."""
        one = 1 << probability_bits(self.delta)
        enough = one - int(Fraction(tail_per_error(confidence, size)) * one)
        chances = selection_probabilities(self.epsilon, self.delta)
        return float(next((n for n, chance in enumerate(chances) if chance >= enough), len(chances)))


def probability_bits(delta: Fraction) -> int:
    """How many bits the probabilities have."""
    return max(MIN_PROBABILITY_BITS, DELTA_BITS + delta.denominator.bit_length() - delta.numerator.bit_length())


@lru_cache(maxsize=16)
def selection_probabilities(epsilon: Fraction, delta: Fraction) -> tuple[int, ...]:
    """2^precision·π_n for n = 0, 1, … while it is below 1; every later count is shown for certain."""
    # π grows like δ·e^{nε} to about ½, and 1 − π falls in the same way: about 2·ln(1 + ε/δ)/ε counts.
    if 2 * log_bounds(1 + epsilon / (2 * delta))[0] > MAX_TABLE_LENGTH * epsilon:
        raise BadParameter(
            "epsilon",
            format_rational(epsilon),
            f"with δ = {format_rational(delta)} needs a table of more than a million counts",
            "use Threshold, or take a larger epsilon or delta",
        )
    one = 1 << probability_bits(delta)
    shrink = ceil(exp_neg_bounds(epsilon)[1] * one)  # e^-ε, rounded up
    slip = int(delta * one)
    chances = [0]
    while True:
        last = chances[-1]
        following = min(last * one // shrink + slip, one - -(-(one - last - slip) * shrink // one))
        if following >= one or last + slip >= one:
            return tuple(chances)
        chances.append(max(last, following))


def _probability_bounds(chance: int, places: int, bits: int) -> tuple[int, int]:
    """The probability chance/2^places in units of 2^-wanted, rounded down and up."""
    scaled = chance << bits
    return scaled >> places, -(-scaled >> places)
