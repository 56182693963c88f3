"""Partition selection: which undeclared group keys may be shown, by the number of distinct units that have each key.

A key that no unit has never appears, so a key that only one unit has would reveal that unit: showing it is what costs δ. The
noise that selects is used for nothing else; values get fresh noise.

*The optimal selection* shows each key with the largest probability that (ε, δ) per key allows [DVGM22].

**Proof.** π₀ = 0 and π_{n+1} = min(e^ε·π_n + δ, 1 − e^-ε·(1 − π_n − δ), 1): the first two are the two directions of (ε, δ)
for "shown" and "not shown" between n + 1 and n units; as π never falls, the other two conditions hold too. Each step may be
rounded down without breaking any of them (the next step starts from the rounded value), so the probabilities drawn here are
exact numbers of 256 bits (more for a tiny δ) that are (ε, δ)-private as they stand, at most 2^-255·n·e^{nε} below the
optimum. The distribution is that of truncated geometric noise and a threshold.
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
from discreet.noise.bits import Ints, LazyUniform, check_bits
from discreet.units import Sensitivity, to_sensitivity


@dataclass(frozen=True, slots=True, init=False)
class Threshold:
    """Shows a group key if its number of distinct units plus discrete Laplace noise reaches `threshold`.

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
        """Return the lowest threshold at scale l0/ε with l0·p ≤ δ, p being how likely a key of one unit is shown."""
        groups, exact_delta = groups_per_unit(sensitivity), read_probability(delta, "delta")
        scale = groups / read_positive(epsilon, "epsilon")
        # l0·a^{τ−1}/(1+a) ≤ δ is τ − 1 ≥ scale·(ln(l0/δ) − ln(1+a)), in logarithms so that no δ is too small.
        needed = log_bounds(groups / exact_delta)[1] - log_bounds(1 + exp_neg_bounds(1 / scale)[0])[0]
        return cls(scale, max(2, 1 + ceil(scale * needed)))

    def release(self, values: Values, bits: Bits | None = None) -> Any:
        """Return for each count whether its key may be shown; never for a count of 0."""
        counts, restore = read_counts(values)
        noisy = add_saturating(counts, discrete_laplace(self.scale, counts.size, bits).reshape(counts.shape))
        return restore((noisy >= self.threshold) & (counts > 0))

    def event(self, sensitivity: Sensitivity | Number, grid: Number = 1) -> ThresholdEvent:
        """Return the event of a selection in which one unit is counted once in at most l0 keys."""
        return ThresholdEvent(self.scale, self.threshold, groups_per_unit(sensitivity))

    def error(self, confidence: Number, size: int = 1) -> float:
        """Return a number of units: all of `size` keys with at least so many are shown with the given confidence.

        The confidence must be at least ½. P(N < −t) = a^{t+1}/(1+a), a = e^{-1/scale}.
        """
        decay = nearest_float(1 / self.scale)
        return self.threshold + max_error(lambda t: exp(-(t + 1) * decay) / (1 + exp(-decay)), confidence, size)


def groups_per_unit(sensitivity: Sensitivity | Number) -> int:
    """Return in how many keys one unit is counted at most; it is counted once in each."""
    exact = to_sensitivity(sensitivity)
    if exact.l0 is None or exact.linf != 1:
        raise BadParameter(
            "sensitivity", exact, "selection counts distinct units, each once per key", "give l0 = keys per unit, linf = 1"
        )
    return exact.l0


def read_counts(values: Values) -> tuple[Ints, Any]:
    """Return counts as int64, and the function that restores their form."""
    counts, restore = read_values(values)
    if counts.dtype != np.int64:
        raise BadValues("are not integers", "give counts of distinct units")
    return counts, restore


MIN_PROBABILITY_BITS = 256
DELTA_BITS = 96
"""Bits that δ itself keeps: a δ below 2^-160 makes the numbers longer."""

MAX_TABLE_LENGTH = 1 << 20


@dataclass(frozen=True, slots=True, init=False)
class OptimalPartitionSelection:
    """Shows a group key with the probability π of its number of distinct units, (ε, δ)-private per key.

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
        """Return the selection that divides ε and δ over the l0 keys of a unit (basic composition)."""
        groups = groups_per_unit(sensitivity)
        return cls(read_positive(epsilon, "epsilon") / groups, read_probability(delta, "delta") / groups)

    def release(self, values: Values, bits: Bits | None = None) -> Any:
        """Return for each count whether its key may be shown; never for a count of 0."""
        counts, restore = read_counts(values)
        table, source = selection_probabilities(self.epsilon, self.delta), SYSTEM if bits is None else check_bits(bits)
        precision = probability_bits(self.delta)
        leading = np.array([probability >> (precision - 64) for probability in table], np.uint64)
        words = source.words(counts.size).reshape(counts.shape)
        index = np.clip(counts, 0, len(table) - 1)
        shown = words < leading[index]
        for i in np.flatnonzero((words == leading[index]) & (counts < len(table))):
            bounds = partial(_probability_bounds, table[int(index.flat[i])], precision)
            shown.flat[i] = LazyUniform(source, int(words.flat[i]), 64).is_below(bounds)
        return restore(shown | (counts >= len(table)))

    def event(self, sensitivity: Sensitivity | Number, grid: Number = 1) -> OptimalPartitionSelectionEvent:
        """Return the event of a selection in which one unit is counted once in at most l0 keys."""
        return OptimalPartitionSelectionEvent(self.epsilon, self.delta, groups_per_unit(sensitivity))

    def error(self, confidence: Number, size: int = 1) -> float:
        """Return a number of units: all of `size` keys with at least so many are shown with the given confidence."""
        one = 1 << probability_bits(self.delta)
        needed = one - int(Fraction(tail_per_error(confidence, size)) * one)
        table = selection_probabilities(self.epsilon, self.delta)
        return float(next((n for n, probability in enumerate(table) if probability >= needed), len(table)))


def probability_bits(delta: Fraction) -> int:
    """Return how many bits the probabilities have."""
    return max(MIN_PROBABILITY_BITS, DELTA_BITS + delta.denominator.bit_length() - delta.numerator.bit_length())


@lru_cache(maxsize=16)
def selection_probabilities(epsilon: Fraction, delta: Fraction) -> tuple[int, ...]:
    """Return 2^precision·π_n for n = 0, 1, … while it is below 1; every larger count is shown for certain."""
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
    slack = int(delta * one)
    table = [0]
    while True:
        last = table[-1]
        following = min(last * one // shrink + slack, one - -(-(one - last - slack) * shrink // one))
        if following >= one or last + slack >= one:
            return tuple(table)
        table.append(max(last, following))


def _probability_bounds(probability: int, precision: int, bits: int) -> tuple[int, int]:
    """Return probability/2^precision in units of 2^-bits, rounded down and up."""
    scaled = probability << bits
    return scaled >> precision, -(-scaled >> precision)
