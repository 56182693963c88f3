"""Which keys may be shown at all: partition selection on the number of distinct units behind each key.

Keys that nobody has never appear, so a key that one person alone brings tells on them: that costs δ. The noise that selects
is used for nothing else; values get fresh noise.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from math import ceil, exp
from typing import Any

import numpy as np

from discreet._numbers import (
    Number,
    check_int,
    check_positive,
    format_rational,
    nearest_float,
    read_positive,
    read_probability,
)
from discreet.accounting.elementary import exp_neg_bounds, log_bounds
from discreet.errors import BadParameter, BadValues
from discreet.events import OptimalPartitionSelectionEvent, ThresholdEvent
from discreet.mechanisms._additive_noise import Values, add_saturating, max_error, read_values, tail_per_error
from discreet.noise import SYSTEM, Bits, discrete_laplace
from discreet.noise.bits import Ints, LazyUniform
from discreet.units import Sensitivity
from discreet.units import to_sensitivity as bound


@dataclass(frozen=True, slots=True, init=False)
class Threshold:
    """Shows a key if its count of distinct units plus discrete Laplace noise reaches `threshold`.

    >>> rule = Threshold.for_epsilon(1, 1e-6, sensitivity=1)
    >>> rule.threshold, rule.release([1000, 0])
    (15, [True, False])
    """

    scale: Fraction
    threshold: int

    def __init__(self, scale: Number, threshold: int) -> None:
        object.__setattr__(self, "scale", check_positive(scale, "scale"))
        object.__setattr__(self, "threshold", check_int(threshold, "threshold", 2))

    @classmethod
    def for_epsilon(cls, epsilon: Number, delta: Number, sensitivity: Sensitivity | Number) -> "Threshold":
        """The lowest threshold at scale l0/ε with l0·p ≤ δ, p being the probability that a new key shows."""
        groups, fail = groups_per_unit(sensitivity), read_probability(delta, "delta")
        scale = groups / read_positive(epsilon, "epsilon")
        # l0·a^{τ−1}/(1+a) ≤ δ is τ − 1 ≥ scale·(ln(l0/δ) − ln(1+a)), in logarithms so that no δ is too small.
        needed = log_bounds(groups / fail)[1] - log_bounds(1 + exp_neg_bounds(1 / scale)[0])[0]
        return cls(scale, max(2, 1 + ceil(scale * needed)))

    def release(self, values: Values, bits: Bits | None = None) -> Any:
        """For each count, whether its key may be shown. A count of 0 is a key that nobody has: never."""
        counts, restore = read_counts(values)
        noisy = add_saturating(counts, discrete_laplace(self.scale, counts.size, bits).reshape(counts.shape))
        return restore((noisy >= self.threshold) & (counts > 0))

    def event(self, sensitivity: Sensitivity | Number, grid: Number = 1) -> ThresholdEvent:
        """What a selection costs when one unit is counted once in at most l0 keys."""
        return ThresholdEvent(self.scale, self.threshold, groups_per_unit(sensitivity))

    def error(self, confidence: Number, size: int = 1) -> float:
        """All of `size` keys with at least this many units are shown with the given confidence (of at least ½):
        P(N < −t) = a^{t+1}/(1+a)."""
        decay = nearest_float(1 / self.scale)
        return self.threshold + max_error(lambda t: exp(-(t + 1) * decay) / (1 + exp(-decay)), confidence, size)


def groups_per_unit(sensitivity: Sensitivity | Number) -> int:
    """In how many keys one unit is counted; it is counted once in each, which is what distinct units means."""
    shape = bound(sensitivity)
    if shape.l0 is None or shape.linf != 1:
        raise BadParameter(
            "sensitivity", shape, "selection counts distinct units, each once per key", "give l0 = keys per unit, linf = 1"
        )
    return shape.l0


def read_counts(values: Values) -> tuple[Ints, Any]:
    """Counts as int64, and the way back."""
    counts, restore = read_values(values)
    if counts.dtype != np.int64:
        raise BadValues("are not whole numbers", "give counts of distinct units")
    return counts, restore


# The optimal partition selection: show each key with the largest probability that (ε, δ) per key allows [DVGM22].
#
# π₀ = 0 and π_{n+1} = min(e^ε·π_n + δ, 1 − e^-ε·(1 − π_n − δ), 1): the first two are the two directions of (ε, δ) for
# "shown"
# and "not shown" between n + 1 and n units; as π never falls, the other two conditions hold of themselves. Each step may be
# rounded down without breaking any of them (the next step starts from the rounded value), so the probabilities drawn
# here are
# exact numbers of 256 bits (more for a tiny δ) that are (ε, δ)-private as they stand, at most 2^-255·n·e^{nε} below the
# optimum. The law is that of truncated geometric noise and a threshold.


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
