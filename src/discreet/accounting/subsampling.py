"""Rényi divergence of a Poisson sample of rate q, from that of the release on the sample.

Let Q be the law of the release without the unit and P with it, given who else was sampled. The sample's law is
(1−q)Q + qP if the unit is in the data and Q if not. Who else was sampled averages such pairs, and the moments
E_Q[(P/Q)^α] are jointly convex, so the worst single pair bounds the average.

*Remove* ((1−q)Q + qP against Q), whole α: by the binomial theorem [MTZ19, Sec. 3.3],
    A_α = Σ_k C(α,k)(1−q)^{α−k}q^k·E_Q[(P/Q)^k] = 1 + Σ_{k≥2} C(α,k)(1−q)^{α−k}q^k·(e^{(k−1)D_k} − 1).
*Add* (Q against (1−q)Q + qP), B_α = E_Q[(1−q+qP/Q)^{1−α}]: two cases.

1. The pair has a mirror: an involution that swaps P and Q (symmetric noise; two swapped answers). Then B_α ≤ A_α
   [MTZ19, Thm 5 for differentiable densities]. In general: write R = P/Q, u = 1−q+qR, v = 1−q+q/R. The measure √(PQ) is
   its own mirror image and R turns into 1/R, so it is enough that at every point with R ≥ 1
       R^{-1/2}·(u^α − u^{1−α}) ≥ R^{1/2}·(v^{1−α} − v^α).
   With U = ln u, V = −ln v, β = α − ½ this reads e^{(U+V)/2}·sinh(βU)/R ≥ sinh(βV). Here U ≥ V ≥ 0, since
   uv = 1 + q(1−q)(√R − 1/√R)² ≥ 1; so sinh(βU)/sinh(βV) grows with β, and at β = ½ both sides equal
   e^{V/2}·q(1 − 1/R)/2. Post-processing of a mirrored pair keeps the bound.
2. No mirror: f(x) = (1−q+qx)^{1−α} has f'' ≤ α(α−1)q²(1−q)^{−α−1}, and E_Q[P/Q − 1] = 0, so by Taylor
       B_α ≤ 1 + ½α(α−1)·q²(1−q)^{−α−1}·(e^{D_2} − 1); also B_α ≤ 1 + q·(e^{(α−1)D_α} − 1), as f is convex.
"""

from fractions import Fraction
from functools import lru_cache
from math import expm1, inf, log, log1p

import numpy as np
import numpy.typing as npt

from discreet._numbers import ceil_float
from discreet.accounting.elementary import log_bounds
from discreet.noise import fixed

Floats = npt.NDArray[np.float64]

SLACK = 2.0**-47
"""Relative error allowed for a handful of roundings and calls of log, exp, expm1 in doubles: 64 units of 2^-53."""


def remove_moment(rate: Fraction, order: int, divergences: Floats) -> float:
    """ln A_α for whole α ≥ 2 and 0 < q < 1, rounded up; divergences[k−2] ≥ D_k for k = 2…α.

    >>> half = remove_moment(Fraction(1, 2), 2, np.array([0.1]))  # A = 1 + (e^0.1 − 1)/4
    >>> abs(half - log1p(expm1(0.1) / 4)) < 1e-12
    True
    """
    joined, stayed = _log_rates(rate)
    k = np.arange(2, order + 1, dtype=np.float64)
    growth = (k - 1) * np.maximum(divergences, 0) * (1 + SLACK)
    if not np.isfinite(growth).all():
        return inf
    with np.errstate(divide="ignore"):  # a divergence of 0 adds nothing: ln 0 = −∞ is meant
        excess = growth + np.log(-np.expm1(-growth))  # ln(e^g − 1)
    whole = _log_factorials(order)
    choose = [whole[order] - whole[2:], -whole[: order - 1][::-1]]  # ln of α!/k! and of 1/(α−k)!
    return _log1p_sum(_sum_padded(*choose, (order - k) * stayed, k * joined, excess))


def add_moment(rate: Fraction, order: float, second: float, same: float) -> float:
    """ln B_α by case 2, any real α > 1, rounded up; second ≥ D_2, same ≥ D_α."""
    joined, stayed = _log_rates(rate)
    chord = _sum_padded(joined, _log_expm1((order - 1) * same))
    curvature = log(order * (order - 1) / 2)
    taylor = _sum_padded(curvature, 2 * joined, -(order + 1) * stayed, _log_expm1(second))
    return _log1p_sum(np.minimum(chord, taylor))


def remove_moment_near_one(rate: Fraction, order: float, second: float) -> float:
    """ln A_α for 1 < α ≤ 2, rounded up: Taylor again, with f(x) = (1−q+qx)^α and f'' ≤ α(α−1)q²(1−q)^{α−2}."""
    joined, stayed = _log_rates(rate)
    curvature = log(order * (order - 1) / 2)
    return _log1p_sum(_sum_padded(curvature, 2 * joined, (order - 2) * stayed, _log_expm1(second)))


def interpolate_moment(order: float, below: int, lower: float, upper: float) -> float:
    """ln A_α at a fraction of an order: it is convex in α (Hölder), so the chord from α = below to below + 1 is above it."""
    share = order - below
    return ((1 - share) * lower + share * upper) * (1 + SLACK)


def _log_rates(rate: Fraction) -> tuple[float, float]:
    return ceil_float(log_bounds(rate)[1]), ceil_float(log_bounds(1 - rate)[1])


def _log_expm1(x: float) -> float:
    if x <= 0:
        return -inf
    return x + log(-expm1(-x)) if x < inf else inf


def _sum_padded(*pieces: Floats | float) -> Floats:
    """The sum of the pieces, moved up by more than what adding and making them can have lost."""
    total = np.atleast_1d(np.asarray(sum(pieces)))
    return np.asarray(total + SLACK * (1 + sum(np.abs(np.where(np.isfinite(p), p, 0)) for p in pieces)))


def _log1p_sum(terms: Floats) -> float:
    """ln(1 + Σ e^t), rounded up; a sum of positive terms loses at most their number in units."""
    top = float(np.max(terms))
    if top in (-inf, inf):
        return max(0.0, top)
    log_total = top + log(float(np.sum(np.exp(terms - top)))) + SLACK * (abs(top) + len(terms))
    value = log1p(float(np.exp(log_total))) if log_total < 0 else log_total + log1p(float(np.exp(-log_total)))
    return value * (1 + SLACK)


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


MAX_ORDER = 4096
"""The largest order whose binomial sum is taken; above it the sample reads no better than the release itself."""
