"""The sparse vector technique: which of many statistics reach a threshold, at a cost that counts only those that do.

It adds one noise to the threshold and a fresh one to every statistic, and stops after `most` of them reached it
[DR14, Alg. 2; LSL17, Alg. 1]. Several published variants drop one of these parts and are not private; they are targets of
the auditor.

**Proof** for integers with discrete Laplace noise: that of the continuous case holds unchanged. It shifts the noise of the
threshold by Δ and that of each positive statistic by up to 2Δ, both integers, and a shift by k costs a factor e^{k/scale}.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet._numbers import Number, check_int, check_positive, check_probability, format_rational, read_positive
from discreet.errors import BadParameter, BadValues
from discreet.events import Claim
from discreet.mechanisms._additive_noise import read_values
from discreet.mechanisms.laplace import Laplace
from discreet.noise import Bits, discrete_laplace
from discreet.noise.bits import INT64_MAX, INT64_MIN
from discreet.units import Sensitivity, to_sensitivity

Ints = NDArray[np.int64]
STOPPED = -1


@dataclass(frozen=True, slots=True, init=False)
class SparseVector:
    """Says of each statistic in turn whether it reaches `threshold`, until `most` of them did.

    >>> rule = SparseVector.for_epsilon(2, sensitivity=1, threshold=100)
    >>> rule.release([0, 3, 500, 900])
    [False, False, True]
    """

    threshold: int
    threshold_scale: Fraction
    scale: Fraction
    most: int

    def __init__(self, threshold: int, threshold_scale: Number, scale: Number, most: int = 1) -> None:
        object.__setattr__(self, "threshold", check_int(threshold, "threshold", INT64_MIN))
        if self.threshold > INT64_MAX:
            raise BadParameter(
                "threshold", format_rational(Fraction(self.threshold)), "must fit into 64 bits", "give one below 2^63"
            )
        object.__setattr__(self, "threshold_scale", check_positive(threshold_scale, "threshold_scale"))
        object.__setattr__(self, "scale", check_positive(scale, "scale"))
        object.__setattr__(self, "most", check_int(most, "most", 1))

    def __repr__(self) -> str:
        return (
            f"SparseVector(threshold={self.threshold}, threshold_scale={format_rational(self.threshold_scale)}, "
            f"scale={format_rational(self.scale)}, most={self.most})"
        )

    @classmethod
    def for_epsilon(
        cls,
        epsilon: Number,
        sensitivity: Sensitivity | Number,
        threshold: int,
        most: int = 1,
        *,
        monotone: bool = False,
    ) -> "SparseVector":
        """Return the ε-private mechanism that divides ε by 1 : (2c)^{2/3} between threshold and statistics [LSL17].

        c is `most`; this division is about the best. If one unit moves all statistics in the same direction they are
        `monotone`, and 2c is c.
        """
        eps, change, stops = read_positive(epsilon, "epsilon"), to_sensitivity(sensitivity).linf, check_int(most, "most", 1)
        times = stops if monotone else 2 * stops
        weight = ceil(times ** (2 / 3))
        first = eps / (1 + weight)
        return cls(threshold, change / first, times * change / (eps - first), stops)

    def release(self, values: Sequence[int] | NDArray[np.int64], bits: Bits | None = None) -> list[bool]:
        """Return True or False for each statistic up to the last that may be True; those after it are not used."""
        array, _ = read_values(values)
        if array.dtype != np.int64 or array.ndim != 1:
            raise BadValues("are no list of integers", "round them, and state the sensitivity of the rounded ones")
        return [bool(outcome) for outcome in self.run_batch(array[None], bits)[0] if outcome != STOPPED]

    def run_batch(self, values: Ints, bits: Bits | None = None) -> Ints:
        """Run once per row: 1 for a statistic that reached the threshold, 0 for one that did not, −1 after the stop."""
        bar = _add_exactly(np.int64(self.threshold), discrete_laplace(self.threshold_scale, len(values), bits)[:, None])
        noisy = _add_exactly(values, discrete_laplace(self.scale, values.size, bits).reshape(values.shape))
        reached = (noisy[0] > bar[0]) | ((noisy[0] == bar[0]) & (noisy[1] >= bar[1]))
        before: Ints = np.cumsum(reached, axis=1) - reached
        return np.where(before >= self.most, STOPPED, reached).astype(np.int64)

    def event(self, sensitivity: Sensitivity | Number, grid: Number = 1, *, monotone: bool = False) -> Claim:
        """Return the event: ε = Δ/threshold_scale + 2cΔ/scale, with cΔ/scale instead for monotone statistics [LSL17]."""
        change = to_sensitivity(sensitivity).linf
        return Claim(change / self.threshold_scale + (1 if monotone else 2) * self.most * change / self.scale, Fraction(0))

    def error(self, confidence: Number, size: int = 1) -> float:
        """Return the distance from the threshold at which all of `size` statistics are classified right: both noises add."""
        each = 1 - (1 - check_probability(confidence, "confidence")) / 2
        return Laplace(self.threshold_scale).error(each) + Laplace(self.scale).error(each, size)


def _add_exactly(value: Any, noise: Ints) -> tuple[Ints, Ints]:
    """Return value + noise as (its half, rounded down; its last bit): the exact sum, which int64 might not hold.

    A saturating sum would break the proof, which shifts both noises by Δ: two sums that both stop at the largest int64
    compare otherwise than before.
    """
    half = (value >> 1) + (noise >> 1) + (value & noise & 1)
    return half, (value ^ noise) & 1
