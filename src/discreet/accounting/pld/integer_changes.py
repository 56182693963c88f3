"""Discrete Gaussian noise of which only a length is known: one distribution that dominates several changes of integers.

A change v of integers has the loss L = (|v|² − 2S)/2σ² with S = Σ v_i·k_i, k the noise. Every |v|² is an integer, so the
losses of all changes lie on one lattice n·h, h = 1/2σ².

**Proof** that what is built dominates. H_v(α), the hockey-stick divergence, is convex in α and linear between the e^{nh}. So
the chords between the largest H_v at these points, or at some of them, are nowhere below any H_v. They are convex, as points
of a convex function are, and so the curve of a pair [ZDW22]. That pair dominates every change, so in a composition it
dominates changes that are chosen after earlier answers [ZDW22, Thm 10]. Past the last point the curve is constant, and what
it then has is at infinity. The noise is symmetric, so the curve of v is its own mirror image, H(1/α) = H(α)/α + 1 − 1/α. So
is the largest, and only α ≥ 1 is computed: a loss x > 0 with mass p has a loss −x with mass p·e^{-x} beside it.

*Masses of S.* S lies on gℤ, g the greatest common divisor of the v_i. Two ways:

- *Wide noise.* P(S = s) ∝ e^{-s²/2σ²|v|²}·Σ e^{-|y|²/2σ²}, y over a coset of Λ = ℤ^d ∩ v^⊥. By Poisson summation the sum is
  the same for every coset up to factors 1 ± τ, τ = Σ e^{-2π²σ²|w|²} over the w ≠ 0 of the dual lattice, the projection of
  ℤ^d to v^⊥. Let m be the length of its shortest vector. Balls of radius m/2 around its vectors are disjoint, so at most
  (3 + 2j)^{d−1} of them are shorter than (j + 1)m, and τ ≤ Σ_{j≥1} (3 + 2j)^{d−1}·e^{-2π²σ²m²j²}. With u = v/g, m² ≥
  1/|u|², as |x|²|u|² − ⟨x, u⟩² is an integer. And if u has n₁ coordinates ±1 and none above r: write the vector as x − tu
  with x integer and |t| ≤ ½. For |t| ≤ 1/2r a coordinate of x that is not 0 leaves at least ½, and x = 0 leaves the vector
  0; for |t| > 1/2r each of the n₁ leaves at least |t|. So m² ≥ min(¼, n₁/4r²).
- *Narrow noise.* Convolutions of the coordinates: sums of positive terms, so their relative accuracy is that of the terms.
  Coordinates are cut at 27σ and sums at 27σ|v|: E e^{tk} ≤ e^{t²σ²/2} [CKS20], so all that is cut, here and above, has
  a mass below 1e-150. The largest H must be above 1e-120 at every point: that is 1e-30 of it.

*H without cancellation.* With A(n) = P(L > nh), e^{-nh}·H(n) = e^{-(n+1)h}·H(n + 1) + e^{-nh}(1 − e^{-h})·A(n): sums of
positive terms. Masses are differences of slopes in α, times α: with points x_j, a_j = x_{j+1} − x_j and b_j = x_j − x_{j−1},
p_j = (H_{j+1} − H_j)/(e^{a_j} − 1) + (H_{j−1} − H_j)/(1 − e^{-b_j}). At 0 the left slope is that of the mirror image:
p_0 = 1 + (2H_1 − (1 + e^{a_0})H_0)/(e^{a_0} − 1). Each is rounded up, by the error of what is subtracted; more mass only
adds to a curve. All of these roundings together are part of every mass's error, so that no sum over the list is above the
truth by more than its error.
"""

from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import ceil, exp, fsum, gcd, inf, log, pi, sqrt

import numpy as np

from discreet._numbers import nearest_float
from discreet.accounting.pld import EPS, Floats
from discreet.accounting.pld.discrete import DiscretePld

IntegerChange = tuple[tuple[int, int], ...]
"""(shift, number of coordinates that move by it)."""

_CUT = 27.0  # standard deviations at which sums are cut
_REACH = 20.0  # the same of the last point
_MAX_LATTICE = 1 << 19
_MAX_POINTS = 1500
_MAX_PRODUCTS = 3e7  # of convolutions
_NEARLY_ALIKE = 1e-13  # the largest τ
_MAX_LOSS = 300.0


@lru_cache(maxsize=64)
def build_worst_change_pld(sigma: Fraction, changes: tuple[IntegerChange, ...]) -> tuple[DiscretePld, float] | None:
    """A list that dominates every one of these changes, and its mass at infinity; None where it would take too long.

    >>> pld, infinite = build_worst_change_pld(Fraction(10), (((3, 1),), ((2, 2), (1, 1)), ((1, 9),)))
    >>> abs(float(np.exp(pld.log_mass).sum()) - 1) < 1e-6 and infinite < 1e-80
    True
    """
    width, length = nearest_float(sigma), sqrt(max(_square(change) for change in changes))
    last = ceil(_REACH * length * width * 2 + length**2)  # in lattice points, of the longest change
    cut = ceil(_CUT * length * width) + 1
    step = nearest_float(1 / (2 * sigma**2))
    if last * step > _MAX_LOSS or 2 * cut + length**2 > _MAX_LATTICE:
        return None
    largest, rough = np.zeros(last + 1), 0.0
    for change in _drop_alike(width, changes):
        found = _list_sums(width, change, cut)
        if found is None:
            return None
        masses, error = found
        largest = np.maximum(largest, _list_curve(masses, _square(change), step, last))
        rough = max(rough, error)
    points = np.arange(0, last + 1, ceil(last / _MAX_POINTS))
    if not largest[points[-1]] > 1e-120:
        return None
    rough += 4 * _NEARLY_ALIKE + 1e-30 + 8 * EPS * (2 * cut + length**2 + 2) + 64 * EPS * (1 + last * step)
    return _join_points(points * step, largest[points], rough)


def _square(change: IntegerChange) -> int:
    return sum(count * shift**2 for shift, count in change)


def _divisor(change: IntegerChange) -> int:
    return gcd(*(shift for shift, _ in change))


def _drop_alike(width: float, changes: Iterable[IntegerChange]) -> list[IntegerChange]:
    """Of changes whose S has the same distribution up to 1 ± τ, one: two of them differ by factors 1 ± 4τ at most."""
    found: dict[tuple[int, ...], IntegerChange] = {}
    for change in changes:
        alike = _bound_unevenness(width, change) <= _NEARLY_ALIKE
        key = (_square(change), _divisor(change)) if alike else (*(part for both in change for part in both), 0)
        found.setdefault(key, change)
    return list(found.values())


def _bound_unevenness(width: float, change: IntegerChange) -> float:
    """τ, rounded up."""
    divisor, dimensions = _divisor(change), sum(count for _, count in change) - 1
    if dimensions == 0:
        return 0.0
    most = change[0][0] // divisor
    ones = sum(count for shift, count in change if shift == divisor)
    shortest = max(divisor**2 / _square(change), min(0.25, ones / (4 * most**2)))
    logs = [dimensions * log(3 + 2 * j) - 2 * (pi * width * j) ** 2 * shortest for j in range(1, 64)]
    # From one j to the next a term falls to less than half, or nothing is known.
    return 2.1 * exp(min(0.0, logs[0])) if all(b < a - 1 for a, b in pairwise(logs)) else inf


def _list_sums(width: float, change: IntegerChange, cut: int) -> tuple[Floats, float] | None:
    """P(S = s) for s = −cut … cut, and its relative error."""
    divisor, s = _divisor(change), np.arange(-cut, cut + 1)
    unevenness = _bound_unevenness(width, change)
    if unevenness <= _NEARLY_ALIKE:
        masses = np.where(s % divisor == 0, np.exp(-(s * s) / (2 * width**2 * _square(change))), 0.0)
        return masses / masses.sum(), 3 * unevenness + 4 * EPS * (2 * cut + 2000)  # exponents end at 745
    reach = ceil(_CUT * width) + 1
    count = sum(many for _, many in change)
    if 2.0 * cut * 2 * reach * count > _MAX_PRODUCTS:
        return None
    k = np.arange(-reach, reach + 1)
    one = np.exp(-(k * k) / (2 * width**2))
    one = one / one.sum()
    total = np.ones(1)
    for shift, many in change:
        spread = np.zeros(2 * reach * shift + 1)
        spread[::shift] = one
        for _ in range(many):
            total = np.convolve(total, spread)
            total = total[max(0, len(total) // 2 - cut) : len(total) // 2 + cut + 1]
    return np.pad(total, cut - len(total) // 2), count * EPS * (4 * reach + 64 + 8 * _CUT**2)


def _list_curve(masses: Floats, square: int, step: float, last: int) -> Floats:
    """H at the lattice points 0 … last."""
    cut = len(masses) // 2
    most = square + 2 * cut  # the largest loss, at S = −cut
    losses = np.zeros(max(most, last) + 1)
    losses[most::-2] = masses[: most // 2 + 1]  # those that are not below 0
    above = np.append(np.cumsum(losses[:0:-1])[::-1], 0.0)
    x = step * np.arange(len(losses))
    return np.asarray(np.cumsum((np.exp(-x) * above)[::-1])[::-1][: last + 1] * np.exp(x[: last + 1]) * -np.expm1(-step))


def _join_points(x: Floats, h: Floats, rough: float) -> tuple[DiscretePld, float]:
    """The pair whose curve is the chords between (e^x, H) and their mirror image; H is known to a relative `rough`."""
    gap = np.diff(x)
    rise, fall = np.expm1(gap), -np.expm1(-gap)
    right, left = (h[1:] - h[:-1]) / rise, (h[:-1] - h[1:]) / fall
    wrong = rough * (h[1:] + h[:-1])
    mass = left + np.append(right[1:], 0.0)
    error = wrong / fall + np.append(wrong[1:] / rise[1:], 0.0)
    middle = 1 + (2 * h[1] - (1 + exp(gap[0])) * h[0]) / rise[0]
    middle_error = rough * (2 + (2 * h[1] + (1 + exp(gap[0])) * h[0]) / rise[0])
    mass, middle = np.maximum(mass, 0.0) + error + 1e-300, max(middle, 0.0) + middle_error
    added = 2.1 * (fsum((2 * error + 1e-300).tolist()) * 2 + 2 * middle_error)
    pld = DiscretePld.of(
        np.concatenate([x[:0:-1], [0.0], -x[1:]]),
        np.concatenate([np.log(mass[::-1]), [log(middle)], np.log(mass) - x[1:]]),
        8 * EPS * float(x[-1]),
        added + 16 * EPS * (1 + float(x[-1])),
    )
    return pld, float(h[-1]) * (1 + 2 * rough) + 1e-150
