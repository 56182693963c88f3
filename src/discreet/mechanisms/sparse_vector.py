"""The sparse vector technique: which of many answers reach a threshold, at a price that counts only those that do.

One noise on the threshold, a fresh one on every answer, and a stop after `most` answers that reached it [DR14, Alg. 2;
LSL17, Alg. 1]. On whole numbers with discrete Laplace noise the proof goes through unchanged: it shifts the noise of the
threshold by Δ and that of each positive answer by up to 2Δ, both whole, and a shift by k costs e^{k/scale}. Several
published variants drop one of these parts and are not private; they are targets of the auditor.
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
from discreet.units import Sensitivity
from discreet.units import to_sensitivity as bound

Ints = NDArray[np.int64]
STOPPED = -1


@dataclass(frozen=True, slots=True, init=False)
class SparseVector:
    """Says of each answer in turn whether it reaches `threshold`, until `most` of them did.

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
        """ε is divided 1 : (2c)^{2/3} between the threshold and the answers, about the best there is [LSL17]."""
        eps, moved, stops = read_positive(epsilon, "epsilon"), bound(sensitivity).linf, check_int(most, "most", 1)
        times = stops if monotone else 2 * stops
        weight = ceil(times ** (2 / 3))
        first = eps / (1 + weight)
        return cls(threshold, moved / first, times * moved / (eps - first), stops)

    def release(self, values: Sequence[int] | NDArray[np.int64], bits: Bits | None = None) -> list[bool]:
        """True or False for each answer until the last that may be True; what comes after it is not looked at."""
        answers, _ = read_values(values)
        if answers.dtype != np.int64 or answers.ndim != 1:
            raise BadValues(
                "are no list of whole numbers", "round the answers, and state the sensitivity of the rounded ones"
            )
        return [bool(said) for said in self.run_batch(answers[None], bits)[0] if said != STOPPED]

    def run_batch(self, answers: Ints, bits: Bits | None = None) -> Ints:
        """One run per row: 1 for an answer that reached the threshold, 0 for one that did not, −1 after the stop."""
        bar = _add_exactly(np.int64(self.threshold), discrete_laplace(self.threshold_scale, len(answers), bits)[:, None])
        noisy = _add_exactly(answers, discrete_laplace(self.scale, answers.size, bits).reshape(answers.shape))
        reached = (noisy[0] > bar[0]) | ((noisy[0] == bar[0]) & (noisy[1] >= bar[1]))
        before: Ints = np.cumsum(reached, axis=1) - reached
        return np.where(before >= self.most, STOPPED, reached).astype(np.int64)

    def event(self, sensitivity: Sensitivity | Number, grid: Number = 1, *, monotone: bool = False) -> Claim:
        """Δ/threshold_scale + 2cΔ/scale, or cΔ/scale if one unit moves all answers the same way [LSL17]."""
        moved = bound(sensitivity).linf
        return Claim(moved / self.threshold_scale + (1 if monotone else 2) * self.most * moved / self.scale, Fraction(0))

    def error(self, confidence: Number, size: int = 1) -> float:
        """Each of `size` answers that is this far from the threshold is put on its right side: both noises together."""
        each = 1 - (1 - check_probability(confidence, "confidence")) / 2
        return Laplace(self.threshold_scale).error(each) + Laplace(self.scale).error(each, size)


def _add_exactly(value: Any, noise: Ints) -> tuple[Ints, Ints]:
    """value + noise as (its half, rounded down; its last bit): the exact sum, which int64 might not hold.

    A sum that saturates would not do: the proof moves both noises by Δ, and two sums that both stop at the largest int64
    compare otherwise than before.
    """
    half = (value >> 1) + (noise >> 1) + (value & noise & 1)
    return half, (value ^ noise) & 1
