"""Intervals for estimated tables that are theorems, for the integer noise that is drawn and not for a normal model of it.

The estimate of a cell is its exact count plus Σ_j l_j z_j, where the z are the noises of the measured tables and the l are
known (`residuals`). A table with σ ≥ 3 gets the rounded Gaussian, others the discrete Gaussian (`choose_noise`): a rounding
of ½ is small beside the former, and the latter has the narrower proven tail below.

**Proof** of the half-widths. Let R be the tables with rounded noise z_j = g_j + u_j, g_j normal and u_j = round(g_j) − g_j,
and D those with discrete noise; V_R = Σ_R l²σ², L = Σ_R l² and V_D = Σ_D l²σ².

1. G = Σ_R l_j g_j is exactly normal with variance V_R. The u_j are independent of each other, symmetric and at most ½ in
   size, so E e^{s·u_j} ≤ e^{s²/8} (Hoeffding). The noises of D are independent of them, with E e^{s·z_j} ≤ e^{s²σ²/2}
   [CKS20]: completing the square, E e^{sz} = e^{s²σ²/2}·θ(sσ²)/θ(0) with θ(c) = Σ_k e^{−(k−c)²/2σ²}, and θ is largest at 0,
   because its Fourier coefficients are positive. So U = Σ_R l_j u_j + Σ_D l_j z_j has E e^{sU} ≤ e^{s²W/2}, W = L/4 + V_D,
   and P(|U| > t) ≤ 2·e^{−t²/2W}. G and U depend on each other; a union bound does not mind: with β₁ + β₂ = β, |G + U| ≤
   z_{1−β₁/2}·√V_R + √(2W·ln(2/β₂)) with probability at least 1 − β.
2. Let T = Σ_R l_j u_j. For conjugate exponents p, q, E e^{s(G+T)} ≤ (E e^{psG})^{1/p}(E e^{qsT})^{1/q} ≤
   exp(s²(p·V_R + q·L/4)/2) (Hölder), which the best p makes exp(s²(√V_R + ½√L)²/2). The noises of D are independent and add
   V_D. So |G + U| ≤ √(2·((√V_R + ½√L)² + V_D)·ln(2/β)) with probability at least 1 − β.

No half-width depends on the data, so the least over all β₂ tried and both ways holds as each does. For several cells to
hold together, β is divided by their number, which needs no independence. ∎

What is covered is the count of the rows that are left after contribution bounding, in the declared domain.

*Ends.* The ends are moved out by the rounding error of doubles first. A count is a whole number of at least 0, so then its
ends are rounded inward and cut at 0: the interval loses no number that the count can be. Other linear questions keep their
ends.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import erfc, exp, inf, isqrt, log, pi, sqrt
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from discreet._numbers import Bounds, Number, check_confidence, check_int, largest_where, nearest_float, read_decimal
from discreet.errors import BadParameter
from discreet.mechanisms import DiscreteGaussian, Gaussian
from discreet.tabulation.margins import (
    AnyMeasured,
    Floats,
    Ints,
    Lattice,
    Margin,
    Measured,
    check_margin,
    count_cells,
    list_subsets,
    shape_of,
)
from discreet.tabulation.residuals import UNIT, check_estimable

CountNoise: TypeAlias = Gaussian | DiscreteGaussian

MIN_ROUNDED_SIGMA = 3
"""From this σ on, noise is the rounded Gaussian."""
MIN_VARIANCE = 1e-12
"""A table with noise of less variance is weighted as if it had this much: weights stay ordinary doubles."""
SAFETY_FACTOR = 1 + 1e-9
"""More than all rounding in the computation of a half-width or a variance, relative."""


def choose_noise(sigma: Number) -> CountNoise:
    """Return the noise that a table of counts gets at this σ.

    >>> choose_noise(3), choose_noise(Fraction(5, 2))
    (Gaussian(sigma=3), DiscreteGaussian(sigma=2.5))
    """
    noise = Gaussian(sigma)
    return noise if noise.sigma >= MIN_ROUNDED_SIGMA else DiscreteGaussian(sigma)


@lru_cache(maxsize=4096)
def noise_variance(noise: CountNoise) -> Bounds:
    """Return the variance of the integers that are drawn, between two doubles.

    That of the discrete Gaussian is less than σ², that of the rounded Gaussian about σ² + 1/12.

    >>> [round(noise_variance(noise).upper, 6) for noise in (Gaussian(2), DiscreteGaussian(2), DiscreteGaussian(0.5))]
    [4.083333, 4.0, 0.215013]
    """
    sigma = nearest_float(noise.sigma)
    if sigma > 20:  # the series below differ from σ² + 1/12 and σ² by less than e^-7000
        variance, rest = sigma**2 + (1 / 12 if isinstance(noise, Gaussian) else 0.0), 0.0
    elif isinstance(noise, Gaussian):
        variance, rest = _sum_rounded(sigma)
    else:
        variance, rest = _sum_discrete(sigma)
    return Bounds((variance - rest) * (2 - SAFETY_FACTOR), (variance + rest) * SAFETY_FACTOR)


TERMS = 12


def _sum_rounded(sigma: float) -> tuple[float, float]:
    """The variance of round(Z), and what may be missing.

    For small σ, Σ (2k + 1)·P(|round Z| > k). For others σ² + 1/12 + Σ_m (−1)^m e^{−2π²m²σ²}(4σ² + 1/(πm)²), from the Fourier
    series of z − round(z); its terms alternate and fall.
    """
    if sigma < 0.5:
        terms = [(2 * k + 1) * erfc((k + 0.5) / (sigma * sqrt(2))) for k in range(TERMS)]
        return sum(terms), terms[-1]
    terms = [(-1) ** m * exp(-2 * (pi * m * sigma) ** 2) * (4 * sigma**2 + 1 / (pi * m) ** 2) for m in range(1, TERMS)]
    return sigma**2 + 1 / 12 + sum(terms), abs(terms[-1])


def _sum_discrete(sigma: float) -> tuple[float, float]:
    """The variance of the discrete Gaussian, and what may be missing.

    For small σ, Σ k²w_k/Σ w_k with w_k = e^{−k²/2σ²}. For others the same by Poisson summation: with q_m = e^{−2π²m²σ²},
    σ² − 8π²σ⁴·Σ m²q_m/(1 + 2Σ q_m).
    """
    if sigma < 0.5:
        weights = [exp(-((k / sigma) ** 2) / 2) for k in range(1, TERMS)]
        squares = [k**2 * weight for k, weight in enumerate(weights, 1)]
        return 2 * sum(squares) / (1 + 2 * sum(weights)), 4 * squares[-1]
    q = [exp(-2 * (pi * m * sigma) ** 2) for m in range(1, TERMS)]
    scale = 8 * pi**2 * sigma**4
    return sigma**2 - scale * sum(m**2 * each for m, each in enumerate(q, 1)) / (1 + 2 * sum(q)), scale * TERMS**2 * q[-1]


def sigma_for_variance(variance: Number) -> Fraction:
    """Return a σ at which `choose_noise` draws integers of at most this variance: 1/σ is a short dyadic rational.

    >>> noise_variance(choose_noise(sigma_for_variance(100))).upper <= 100
    True
    """
    limit = Fraction(variance) * (1 - Fraction(1, 10**8))
    if not limit > 0:
        raise BadParameter("variance", variance, "must be positive", "give a variance above 0")
    if limit - Fraction(1, 12) >= MIN_ROUNDED_SIGMA**2:
        return 1 / _root_up(1 / (limit - Fraction(1, 12)))
    if limit > 1:
        return 1 / _root_up(1 / min(limit, Fraction(MIN_ROUNDED_SIGMA**2) * (1 - Fraction(1, 10**8))))
    # The discrete Gaussian's variance is far below σ² here; it grows with σ.
    largest = largest_where(lambda sigma: noise_variance(DiscreteGaussian(sigma)).upper <= limit)
    return 1 / _root_up(1 / Fraction(largest) ** 2)


def _root_up(square: Fraction, bits: int = 30) -> Fraction:
    """The square root, rounded up to so many significant bits."""
    shift = bits - (square.numerator.bit_length() - square.denominator.bit_length()) // 2
    scaled = square * Fraction(4) ** shift
    return Fraction(isqrt(scaled.numerator // scaled.denominator) + 1) / Fraction(2) ** shift


@dataclass(frozen=True, slots=True)
class NoiseParts:
    """The noise in one estimate: its variance, and Σ l²σ² and Σ l² by kind of noise."""

    variance: float
    rounded_variance: float
    rounded_weights: float
    discrete_variance: float

    def half_width(self, confidence: Number, cells: int = 1) -> float:
        """Return the proven half-width at which `cells` such estimates hold together."""
        return half_width((self.rounded_variance, self.rounded_weights), self.discrete_variance, confidence, cells)

    def normal_half_width(self, confidence: Number, cells: int = 1) -> float:
        """Return the half-width of a normal model of the noise, which no theorem backs; for comparison."""
        return -float(ndtri(miss_probability(confidence, cells) / 2)) * sqrt(self.variance)


class ErrorModel:
    """What is known before any row is read: the noise in each cell of each table that lies in a measured one.

    >>> model = ErrorModel((2, 3), {(0, 1): Gaussian(10), (0,): Gaussian(10)})
    >>> parts = model.parts((0,))
    >>> round(parts.variance, 2), round(parts.half_width(0.95), 2), round(parts.normal_half_width(0.95), 2)
    (75.06, 18.73, 16.98)
    """

    def __init__(self, sizes: Sequence[int], noises: Mapping[AnyMeasured, CountNoise]) -> None:
        self.noises: dict[Measured, CountNoise] = dict(noises.items())
        self.lattice = Lattice.of(sizes, noises)
        self.variances: dict[Measured, float] = {
            each: max(MIN_VARIANCE, noise_variance(noise).upper) for each, noise in noises.items()
        }

    @cached_property
    def precisions(self) -> dict[Margin, float]:
        """The precision τ of each residual."""
        tau = self.lattice.add_up({measured: 1 / each for measured, each in self.variances.items()})
        return dict(zip(self.lattice.margins, tau.tolist(), strict=True))

    @cached_property
    def _levels(self) -> Floats:
        """Per residual and kind, Σ_{A⊇b} a_A²·c_A/(N_{A∖b}·τ_b²), where c is the variance or weight of a noise; contrasts
        count 2^columns times (`Lattice.add_up`)."""
        tau = np.array(list(self.precisions.values()))
        kinds: list[dict[Measured, float]] = [{}, {}, {}, {}]
        for measured, noise in self.noises.items():
            square, sigma = self.variances[measured] ** -2, nearest_float(noise.sigma)
            kinds[0][measured] = square * noise_variance(noise).upper
            if isinstance(noise, Gaussian):
                kinds[1][measured], kinds[2][measured] = square * sigma**2, square
            else:
                kinds[3][measured] = square * sigma**2
        tau[tau == 0] = np.inf  # measured by nothing: no table that has it is estimated
        return np.stack([self.lattice.add_up(kind) / tau**2 for kind in kinds], axis=1)

    @cached_property
    def _tables(self) -> Floats:
        return np.asarray(self.lattice.rebuilding @ self._levels)

    def parts(self, margin: Margin) -> NoiseParts:
        """Return the noise in each cell of the estimated table."""
        place = self._find(margin)
        return NoiseParts(*(self._tables[place] * SAFETY_FACTOR).tolist())

    def residual_parts(self, margin: Margin) -> Floats:
        """Return the noise in one coordinate of a residual, before it is centred, as in `NoiseParts`; zeros if no measured
        table holds it."""
        place = self.lattice.index.get(self.lattice.drop(margin))
        return np.zeros(4) if place is None or not self.precisions[self.lattice.margins[place]] else self._levels[place]

    def question_parts(self, margin: Margin, weights: NDArray[Any]) -> NoiseParts:
        """Return the noise in Σ weight · cell over the estimated table, such as the difference of two cells."""
        place, sizes = self._find(margin), self.lattice.sizes
        array, shape = np.asarray(weights, float), shape_of(sizes, margin)
        if array.shape != shape:
            raise BadParameter("weights", f"of shape {array.shape}", f"the table has shape {shape}", "give one per cell")
        kept = self.lattice.margins[place]
        table, total = array.reshape(shape_of(sizes, kept)), np.zeros(4)
        for b in list_subsets(kept):
            centred = table.sum(axis=tuple(axis for axis, i in enumerate(kept) if i not in b))
            for axis in range(len(b)):
                centred = centred - centred.mean(axis=axis, keepdims=True)
            share = count_cells(sizes, b) / count_cells(sizes, kept)
            total += self._levels[self.lattice.index[b]] * (float((centred**2).sum()) * share**2)
        return NoiseParts(*(total * SAFETY_FACTOR).tolist())

    def _find(self, margin: Margin) -> int:
        kept = self.lattice.drop(check_margin(margin, len(self.lattice.sizes)))
        check_estimable(self.precisions, kept)
        return self.lattice.index[kept]


def miss_probability(confidence: Number, cells: int = 1) -> float:
    """Return β, how often one of `cells` intervals may miss; rounded down."""
    exact = 1 - read_decimal(check_confidence(confidence), "confidence")
    return nearest_float(exact / check_int(cells, "cells", 1)) * (1 - 4 * UNIT)


SPLITS = np.logspace(-8, 0, 161)[:-1]
"""The shares of β that are tried for the part that is not normal."""


@lru_cache(maxsize=4096)
def half_width(rounded: tuple[float, float], discrete: float, confidence: Number, cells: int = 1) -> float:
    """Return a half-width that holds with the confidence, for `cells` estimates together; see the proof above.

    `rounded` is Σ l²σ² and Σ l² over rounded Gaussian noise, `discrete` is Σ l²σ² over discrete Gaussian noise.

    >>> [round(half_width(rounded, discrete, 0.95), 2) for rounded, discrete in [((100.0, 1.0), 0.0), ((0.0, 0.0), 4.0)]]
    [21.63, 5.43]
    """
    variance, weights = rounded
    if not (0 <= variance < inf and 0 <= weights < inf and 0 <= discrete < inf):
        raise BadParameter(
            "rounded", f"{rounded}, discrete {discrete}", "must be at least 0 and finite", "give sums of squares"
        )
    miss = miss_probability(confidence, cells)
    width = sqrt(2 * ((sqrt(variance) + sqrt(weights) / 2) ** 2 + discrete) * log(2 / miss))
    if variance > 0:
        bounded = weights / 4 + discrete
        widths = -ndtri(miss * (1 - SPLITS) / 2) * sqrt(variance) + np.sqrt(2 * bounded * np.log(2 / (miss * SPLITS)))
        width = min(width, float(widths.min()))
    return width * SAFETY_FACTOR


def half_widths(parts: Floats, confidence: Number) -> Floats:
    """Return the half-widths of several estimates, each by itself: one row of `NoiseParts` for each.

    >>> half_widths(np.array([[100.1, 100.0, 1.0, 0.0], [4.0, 0.0, 0.0, 4.0]]), 0.95).round(2).tolist()
    [21.63, 5.43]
    """
    miss = miss_probability(confidence)
    _, variance, weights, discrete = np.asarray(parts, float).T
    width = np.sqrt(2 * ((np.sqrt(variance) + np.sqrt(weights) / 2) ** 2 + discrete) * log(2 / miss))
    bounded = weights / 4 + discrete
    for share in SPLITS.tolist():
        normal, rest = -float(ndtri(miss * (1 - share) / 2)), 2 * log(2 / (miss * share))
        width = np.where(variance > 0, np.minimum(width, normal * np.sqrt(variance) + np.sqrt(rest * bounded)), width)
    return np.asarray(width * SAFETY_FACTOR)


def find_ends(
    estimates: NDArray[Any], half_width: float | Floats, *, rounding_error: float = 0.0, is_count: bool = True
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the lower and upper ends of the intervals of some estimates.

    Those of counts are integers of at least 0. An interval that holds none, which noise can do, becomes the two integers
    around it, or [0, 0] below 0: it misses either way.

    >>> [ends.tolist() for ends in find_ends(np.array([7.3, 0.4, -9.0, 3.5]), 2.5)]
    [[5, 0, 0, 1], [9, 2, 0, 6]]
    >>> [ends.tolist() for ends in find_ends(np.array([7.3, 3.5]), 0.2)]
    [[7, 3], [8, 4]]
    """
    values = np.asarray(estimates, float)
    width = half_width + rounding_error + 4 * UNIT * (abs(values) + half_width)
    lower, upper = values - width, values + width
    if not is_count:
        return lower, upper
    least, greatest = _to_integers(np.ceil(lower)), _to_integers(np.floor(upper))
    lower_end, upper_end = np.minimum(least, greatest), np.maximum(least, greatest)
    return np.maximum(lower_end, 0), np.maximum(upper_end, 0)


def _to_integers(values: Floats) -> Ints:
    return np.clip(values, -(2.0**62), 2.0**62).astype(np.int64)


def find_reliable(estimates: NDArray[Any], half_width: float | Floats) -> NDArray[np.bool_]:
    """Return which counts are reliable: the half-width is at most a tenth of the estimate, as in an answer.

    >>> find_reliable(np.array([100.0, 24.0, -100.0]), 2.5).tolist()
    [True, False, False]
    """
    return np.asarray(np.asarray(estimates) >= 10 * half_width)
