"""Which keys may be shown at all: partition selection on the number of distinct units behind each key.

Keys that nobody has never appear, so a key that one person alone brings tells on them: that costs δ. The noise that selects
is used for nothing else; values get fresh noise.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, exp
from typing import Any

import numpy as np

from discreet.accounting.elementary import exp_neg_bounds, log_bounds
from discreet.errors import BadParameter, BadValues
from discreet.exact import Number, check_int, check_positive, nearest_float, read_positive, read_probability
from discreet.loss import ThresholdEvent
from discreet.mechanisms.quantile import max_error_quantile
from discreet.mechanisms.values import Values, add_saturating, read_values
from discreet.noise import Bits, discrete_laplace
from discreet.noise.lazy import Ints
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
        short = max_error_quantile(lambda t: exp(-(t + 1) * decay) / (1 + exp(-decay)), confidence, size)
        return float(self.threshold + short)


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
