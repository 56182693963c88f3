"""The curve of repeated exponential mechanisms on a fine lattice: where the worst u of every x may lie is found first.

**Theory of operation.** V, P_u and κ = e^{-ε} are those of `ranges`. The lattice is x = ih, h = ε/M, with x = 0 on it. Only
x ≥ 0 is computed: P and Q may be swapped, so V_j(x) = 1 − e^x + e^x·V_j(−x), and V_j(x) is 0 from x = jε on.

*From above*, V_j is taken for its chords W between lattice points as functions of z = e^x, which are not below. With
y = x − u and z = e^y the sum to be maximised is

    m(x, y) = ((1 − κe^x/z)·W(z) + κ(e^x/z − 1)·W(z/κ))/(1 − κ).

While y is between two lattice points, y_i and y_i + h, W(z) = A₀ + A₁z and W(z/κ) = B₀ + B₁z/κ, so

    ∂m/∂z = (κe^x·b/z² − a)/(1 − κ),  a = B₁ − A₁,  b = A₀ − B₀.

**Proof** that few cells matter. Neither a nor b depends on x. With both positive, m rises in y where x is above 2y −
y_i + û_i, and falls where it is below, û_i = ε + ln(a·z_i/b). So in the cell i it only rises for x ≥ y_i + û_i + 2h,
and only falls for x ≤ y_i + û_i. Let i be the first cell of which the former is not true, and i' the last of which the
latter is not: m rises before the cell i and falls after the cell i', so that it is largest at a lattice point or inside
a cell from i to i'. Two counts find both for all x at once. Inside,

    m = m(x, y_i) + (a·z_i/(1 − κ))·(e^d − 1)²,  d = (x − y_i − û_i)/2,

where d is between 0 and h, and else it is largest at a lattice point. That uses W at the lattice only: nothing leans on the
computed values being convex.

*From below* only u on the lattice are tried, those beside the same cells.

Values far below the δ that is asked for are cut. Past the last value c that is kept, V is between 0 and c: the lower
end is 0 there, and W any function above 0, with V ≤ W + c. A constant that is added to W is added to every later one,
as the P_u add up to 1, so all these c are added at the end.

**Rounding.** Every value is a sum of positive terms, and is moved by 64 roundings outwards. Where a or b keeps less
than 1e-5 of its terms there is no answer; else û_i is off by less than `_GUARD`, by which every comparison is
moved outwards.
"""

from math import ceil, exp, expm1

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.pld import EPS, Floats

Integers = NDArray[np.int64]
_GUARD = 1e-9
_MOST_ACTIVE = 2000
_USUAL = 3  # cells that matter, beside the first; there are more where values were cut


def bound_half_line(epsilon: float, times: int, top: float, cells: int, cut: float) -> tuple[Floats, Floats] | None:
    """V from below and from above at 0, h, 2h, … past `top`, h = ε/cells; None where the worst u is not located.

    >>> low, high = bound_half_line(1.0, 3, 1.0, 100, 0.0)
    >>> bool((low <= high).all() and (high[:100] < 1.001 * low[:100]).all())
    True
    """
    m, h = cells, epsilon / cells
    rest_of_one, kappa = -expm1(-epsilon), exp(-epsilon)
    if h < 1e3 * _GUARD:
        return None
    steps = h * np.arange(m + 1)
    kept = -np.expm1(-steps[::-1]) / rest_of_one  # P_u at u = ih
    rest = np.expm1(steps) * kappa / rest_of_one
    ghost = np.exp(-steps[:0:-1])  # e^x at x = −ε … −h
    reach = ceil(top / h) + 2
    low, high, is_cut, left_out = np.zeros(1), np.zeros(1), False, 0.0
    for done in range(1, times + 1):
        last = len(high) - 1
        size = min(done * m, reach + (times - done) * m, last + m) + 1
        below, above = _extend(low, ghost, m + size, is_cut=False), _extend(high, ghost, m + size, is_cut)
        below[:m] *= 1 - 8 * EPS
        above[:m] *= 1 + 8 * EPS
        found = _locate(above, size, m, h, epsilon)
        if found is None:
            return None
        first, count, worst, weight = found
        low, high, index, everywhere = np.zeros(size), np.zeros(size), np.arange(size), slice(None)
        for k in range(int(count.max()) + 1):
            some = everywhere if k <= _USUAL else np.flatnonzero(count >= k)
            n = index[some]
            place = np.minimum(np.maximum(first[some] + k, n), n + m)  # where y is, counted from −ε on
            u = n + m - place
            share, other = kept[u], rest[u]
            inside = 0.5 * (h * u - worst[place]) + _GUARD  # d
            inside *= (inside > 0) & (inside < h + 4 * _GUARD)
            lower = share * below[place] + other * below[place + m]
            upper = share * above[place] + other * above[place + m] + weight[place] * inside**2
            low[some], high[some] = np.maximum(low[some], lower), np.maximum(high[some], upper)
        low *= 1 - 64 * EPS
        high *= 1 + 64 * EPS
        if size == done * m + 1:
            low[-1] = high[-1] = 0.0
        kept_size = int((high >= cut).sum()) + 1  # V falls
        if 2 < kept_size < size and high[kept_size - 1] > 0:
            low, high = low[:kept_size], high[:kept_size]
        if is_cut := len(high) < min(done * m, reach + (times - done) * m) + 1:  # now, or before and not reached again
            left_out += float(high[-1])
    return low, high + left_out * (1 + 1e-12)


def _extend(values: Floats, ghost: Floats, size: int, is_cut: bool) -> Floats:
    """The values from x = −ε on, as many as are used; after a cut they fall in proportion, so that no kink is there."""
    more = np.zeros(max(0, size + 2 - len(values)))
    if is_cut:
        ratio = max(float(values[-1] / values[-2]), exp(-64 / len(ghost)))
        more = values[-1] * ratio ** np.arange(1, len(more) + 1)
    right = np.concatenate([values, more])
    return np.concatenate([(1 - ghost) + ghost * right[len(ghost) : 0 : -1], right])


def _locate(above: Floats, size: int, m: int, h: float, epsilon: float) -> tuple[Integers, Integers, Floats, Floats] | None:
    """Of every x the first cell that matters, how many more do, and û and a·z/(1 − κ) of every cell."""
    cells, grown, kappa = size - 1 + m, expm1(h), exp(-epsilon)
    drop = (above[:-1] - above[1:]) / grown
    near, away = drop[:cells], drop[m : m + cells]
    a, outer = near - kappa * away, above[:cells] + near
    b = outer - (above[m : m + cells] + away)
    is_empty = (near == 0) & (above[:cells] == above[m : m + cells])  # V is constant: m is, too
    if not (is_empty | ((a > 1e-5 * near) & (b > 1e-5 * outer))).all():
        return None
    with np.errstate(invalid="ignore", divide="ignore"):
        worst = np.where(is_empty, epsilon, epsilon + np.log(a / b))
    turn = h * np.arange(-m, size - 1) + worst  # y + û
    rising = np.maximum.accumulate(turn + (2 * h + _GUARD))
    falling = np.minimum.accumulate((turn - _GUARD)[::-1])[::-1]
    first = _count_up_to(np.ceil(rising / h - 1e-6), size)
    last = _count_up_to(np.floor(falling / h + 1e-6), size)
    count = last - first
    weight = np.where(is_empty, 0.0, a) * (exp(h + h * h) / -expm1(-epsilon))  # (e^d − 1)² ≤ d²·e^{h + h²}
    return (first, count, np.append(worst, epsilon), np.append(weight, 0.0)) if count.max() <= _MOST_ACTIVE else None


def _count_up_to(numbers: Floats, size: int) -> Integers:
    """How many of the numbers are at most n, for n = 0 … size − 1."""
    return np.cumsum(np.bincount(np.clip(numbers, 0, size).astype(np.int64), minlength=size + 1))[:size]
