"""Moments of Poisson samples: the sums of `accounting.renyi`, which proves them, in doubles that are rounded up.

They are apart from `renyi` because they need NumPy, which a session without samples does not load to open an account.
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from math import exp, expm1, inf, isfinite, log, log1p
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet._numbers import ceil_float
from discreet.accounting.elementary import log_bounds
from discreet.noise import fixed

Floats: TypeAlias = NDArray[np.float64]

SLACK = 2.0**-47
"""Relative error allowed for a handful of roundings and calls of log, exp, expm1 in doubles: 64 units of 2^-53."""

MAX_ORDER = 4096
"""The largest order whose binomial sum is taken; above it a sample has the bound of the event on everyone."""


def remove_moment(rate: Fraction, order: int, divergences: Sequence[float] | Floats) -> float:
    """ln A_α for integer α ≥ 2 and 0 < q < 1, rounded up; divergences[k−2] ≥ D_k for k = 2…α.

    >>> half = remove_moment(Fraction(1, 2), 2, [0.1])  # A = 1 + (e^0.1 − 1)/4
    >>> abs(half - log1p(expm1(0.1) / 4)) < 1e-12
    True
    """
    log_rate, log_rest = _log_rates(rate)
    if order == 2:
        return _log1p_exp(2 * log_rate, _log_expm1(divergences[0] * (1 + SLACK)))
    k, left, log_choose, size = _binomial_terms(order)
    growth = (k - 1) * np.maximum(divergences, 0) * (1 + SLACK)
    if not isfinite(growth.sum()):
        return inf
    if growth.all():
        excess = growth + np.log(-np.expm1(-growth))  # ln(e^g − 1)
    else:
        with np.errstate(divide="ignore"):  # a divergence of 0 adds nothing: ln 0 = −∞ is meant
            excess = growth + np.log(-np.expm1(-growth))
    chances = left * log_rest + k * log_rate  # neither is above 0
    return _log1p_sum(_sum_padded(log_choose + chances, excess, size - chances))


def add_moment(rate: Fraction, order: float, second: float, same: float) -> float:
    """ln B_α by case 2, any real α > 1, rounded up; second ≥ D_2, same ≥ D_α."""
    log_rate, log_rest = _log_rates(rate)
    chord = _log1p_exp(log_rate, _log_expm1((order - 1) * same))
    curvature = log(order * (order - 1) / 2)
    return min(chord, _log1p_exp(curvature, 2 * log_rate, -(order + 1) * log_rest, _log_expm1(second)))


def remove_moment_near_one(rate: Fraction, order: float, second: float) -> float:
    """ln A_α for 1 < α ≤ 2, rounded up: Taylor again, with f(x) = (1−q+qx)^α and f'' ≤ α(α−1)q²(1−q)^{α−2}."""
    log_rate, log_rest = _log_rates(rate)
    curvature = log(order * (order - 1) / 2)
    return _log1p_exp(curvature, 2 * log_rate, (order - 2) * log_rest, _log_expm1(second))


def interpolate_moment(order: float, below: int, lower: float, upper: float) -> float:
    """ln A_α at a fraction of an order: it is convex in α (Hölder), so the chord from α = below to below + 1 is above it."""
    share = order - below
    return ((1 - share) * lower + share * upper) * (1 + SLACK)


@lru_cache(maxsize=1 << 12)
def _log_rates(rate: Fraction) -> tuple[float, float]:
    """ln q and ln(1 − q), rounded up."""
    return ceil_float(log_bounds(rate)[1]), ceil_float(log_bounds(1 - rate)[1])


def _log_expm1(x: float) -> float:
    if x <= 0:
        return -inf
    return x + log(-expm1(-x)) if x < inf else inf


@lru_cache(maxsize=64)
def _binomial_terms(order: int) -> tuple[Floats, Floats, Floats, Floats]:
    """k = 2…α, α − k, ln C(α, k), and the sizes of the terms that it is the sum of."""
    k = np.arange(2, order + 1, dtype=np.float64)
    factorials = _log_factorials(order)
    first, second = factorials[order] - factorials[2:], factorials[: order - 1][::-1]  # ln of α!/k! and of (α−k)!
    return k, order - k, first - second, first + second


def _sum_padded(first: Floats, second: Floats, size: Floats) -> Floats:
    """The sum of two terms, moved up by more than what adding and computing them can have lost: the first one is itself a
    sum, of terms of this size together; the second one is −∞ or above −746, as the logarithm of a double is."""
    return first + second + SLACK * (1 + size + np.abs(np.maximum(second, -746.0)))


def _log1p_exp(*terms: float) -> float:
    """ln(1 + e^t) for the sum t of the terms, rounded up."""
    total = sum(terms)
    if total in (-inf, inf):
        return max(0.0, total)
    return _log1p_of_log(total + SLACK * (1 + sum(map(abs, terms))))


def _log1p_sum(terms: Floats) -> float:
    """ln(1 + Σ e^t), rounded up; a sum of positive terms loses at most their number in units."""
    top = float(terms.max())
    if top in (-inf, inf):
        return max(0.0, top)
    log_total = top + log(float(np.exp(terms - top).sum())) + SLACK * (abs(top) + len(terms))
    return _log1p_of_log(log_total)


def _log1p_of_log(x: float) -> float:
    """ln(1 + e^x), rounded up."""
    return (log1p(exp(x)) if x < 0 else x + log1p(exp(-x))) * (1 + SLACK)


@lru_cache(maxsize=1)
def _table(size: int) -> Floats:
    total, sums = 0, [0.0]
    for n in range(1, size):
        total += fixed.log_int(n, 64)  # each within one unit of 2^-64
        sums.append(total / 2**64)
    return np.array(sums)


def _log_factorials(order: int) -> Floats:
    """ln 0!, …, ln order!, each within two units of 2^-53, relatively."""
    return _table(1024 if order < 1024 else MAX_ORDER + 1)[: order + 1]
