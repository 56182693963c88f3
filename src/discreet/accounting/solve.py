"""Where to put the contour: its tilt c, its step and its length, for one side of one composition.

Nothing here can make an interval false: `contour.Line` proves what it returns whatever c, step and length are. A bad
choice only makes it wide. Work is bounded: at most `_NODES` nodes and a fixed number
of tries.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, exp, inf, isfinite, log, pi, sqrt

import numpy as np

from discreet.accounting.contour import Contour
from discreet.accounting.ladder import CgfTable, Parts, total_decay_bound, total_max_loss
from discreet.accounting.laws import Floats
from discreet.accounting.nodes import build_contour, round_step

_MAX_NODES = 1 << 17
_COARSE = 2.0 ** np.arange(-20, 30.5, 0.5)
_NEAR = 2.0 ** np.linspace(-0.5, 0.5, 17)[1:-1]
_TRIES = 4


@dataclass(frozen=True, slots=True)
class SaddlePoint:
    """A choice of c for one ε, and roughly what ln δ and the curvature of K are there."""

    c: float
    epsilon: float
    log_delta: float
    cgf_table: CgfTable
    max_loss: float


def tabulate_cgf(parts: Parts) -> CgfTable:
    """K on all scales that a c can have."""
    return CgfTable.of(parts, _COARSE)


def find_saddle_point(parts: Parts, cgf_table: CgfTable, epsilon: float) -> SaddlePoint:
    """The saddle point of e^{K(c) − cε}/(c(c + 1)), to a few per cent."""
    start = float(cgf_table.c[np.argmin(_log_height(cgf_table, epsilon))])
    near = CgfTable.of(parts, start * _NEAR)
    every = np.concatenate([cgf_table.c, near.c])
    order = np.argsort(every, kind="stable")
    both = CgfTable(every[order], np.concatenate([cgf_table.k, near.k])[order])
    best = int(np.argmin(_log_height(both, epsilon)))
    c = float(both.c[best])
    return SaddlePoint(
        c, epsilon, float(_log_height(both, epsilon)[best]) - log(_spread(both, best)), both, total_max_loss(parts)
    )


def find_saddle_point_for_delta(parts: Parts, cgf_table: CgfTable, delta: float) -> SaddlePoint:
    """The tilt for the ε of this δ: by Chernoff's bound, which is a little too large, then by the saddle point."""
    epsilon = cgf_table.chernoff_epsilon(delta)
    tilt = find_saddle_point(parts, cgf_table, epsilon if isfinite(epsilon) else 1.0)
    nearer = tilt.epsilon + (tilt.log_delta - log(delta)) / tilt.c  # ln δ falls by about c per unit of ε
    return replace(tilt, epsilon=max(tilt.epsilon - 20 / tilt.c, min(nearer, tilt.epsilon), 0.0), log_delta=log(delta))


def _log_height(cgf_table: CgfTable, epsilon: float) -> Floats:
    with np.errstate(invalid="ignore"):
        value = cgf_table.k - cgf_table.c * epsilon - np.log(cgf_table.c) - np.log1p(cgf_table.c)
    return np.where(np.isnan(value), inf, value)


def _spread(cgf_table: CgfTable, at: int) -> float:
    """√(2π·(ln e^{K − cε}/(c(c+1)))''), by differences: the saddle's height over this is about δ."""
    lo, hi = max(0, at - 4), min(len(cgf_table.c) - 1, at + 4)
    x, y = cgf_table.c[[lo, at, hi]], (cgf_table.k - np.log(cgf_table.c) - np.log1p(cgf_table.c))[[lo, at, hi]]
    if lo == at or hi == at or not np.isfinite(y).all():
        return 1 / float(x[1])
    second = 2 * ((y[2] - y[1]) / (x[2] - x[1]) - (y[1] - y[0]) / (x[1] - x[0])) / (x[2] - x[0])
    return sqrt(2 * pi * max(1 / float(x[1]) ** 2, float(second)))


def fit_contour(parts: Parts, saddle: SaddlePoint, tolerance: float, log_delta: float, stretch: float = 1.0) -> Contour:
    """A contour at this tilt that should give δ to a relative `tolerance`, if ln δ is about `log_delta`.

    `stretch` > 1 makes the period longer than needed, for totals that will grow.
    """
    c, aim = saddle.c, log_delta + log(tolerance) - 4
    step = round_step(2 * pi / (stretch * _choose_period(saddle, aim)))
    base = float(saddle.cgf_table.k[np.searchsorted(saddle.cgf_table.c, c)])
    small = aim - (base - c * saddle.epsilon) - log(step / pi)  # ln of what Σ terms may be wrong by
    most = _MAX_NODES
    for count in unsmoothed_node_counts(parts, c, step, min(most, 4096)):
        if total_decay_bound(parts, c, step * (count - 1)) / (step**2 * count) <= exp(min(0.0, small)):
            return build_contour(parts, saddle.cgf_table, c, step, count, 0.0, small - log(count))
    smooth = 0.4 * tolerance / (c * (c + 1))
    depth = max(8.0, -small)
    count = min(most, ceil(sqrt(2 * depth / smooth) / step) + 2)
    smooth = max(smooth, 2 * depth / (step * (count - 1)) ** 2)
    return build_contour(parts, saddle.cgf_table, c, step, count, smooth, small - log(count))


def unsmoothed_node_counts(parts: Parts, c: float, step: float, max_nodes: int) -> tuple[int, ...]:
    """Numbers of nodes to try without smoothing: none where even the largest has no decay to show."""
    counts = tuple(count for count in (64, 256, 1024, 4096) if count <= max_nodes)
    return counts if counts and total_decay_bound(parts, c, step * (counts[-1] - 1)) < 1e-9 else ()


def _choose_period(saddle: SaddlePoint, aim: float) -> float:
    """T such that Chernoff's bounds on the aliases at ε ± T are below e^aim."""
    t, logs = saddle.cgf_table.c, saddle.cgf_table.chernoff(saddle.epsilon)
    gap = np.abs(t - saddle.c)
    with np.errstate(divide="ignore", invalid="ignore"):
        need = np.where(np.isfinite(logs) & (gap > 0), (logs - aim) / gap, inf)
    left = min(-aim / saddle.c, float(np.min(need[t < saddle.c], initial=inf)))
    right = float(np.min(need[t > saddle.c], initial=inf))
    right = min(right, max(0.0, saddle.max_loss - saddle.epsilon) + 0.5 / saddle.c)  # nothing is above the largest loss
    return 1.05 * max(left, right if isfinite(right) else left, 1e-3 / saddle.c)


def bound_delta_by_contour(parts: Parts, epsilon: float, rtol: float) -> tuple[float, float]:
    """The finite part of δ(ε), by contour."""
    if epsilon >= total_max_loss(parts):
        return 0.0, 0.0
    tilt = find_saddle_point(parts, tabulate_cgf(parts), epsilon)
    if not isfinite(tilt.log_delta):  # K is out of reach at every c
        return 0.0, 1.0
    log_delta, low, high = tilt.log_delta, 0.0, 1.0
    tolerance = rtol
    for _ in range(_TRIES):
        path = fit_contour(parts, tilt, tolerance, log_delta)
        at_low, at_high = path.bound_delta(epsilon)
        low, high = max(low, at_low), min(high, at_high)
        if high - low <= rtol * high or high < 1e-305 or _has_all_nodes(path):
            break
        tolerance, log_delta = tolerance / 4, min(log_delta, log(max(low, high * 1e-3)))
    return low, high


def bound_epsilon_by_contour(
    parts: Parts, delta: float, rtol: float, infinity_mass: tuple[float, float]
) -> tuple[float, float]:
    """The ε where δ(ε) = delta, if mass `extra` (between two doubles) is at infinity and the rest on the contour."""
    aim = delta - infinity_mass[1] if delta > infinity_mass[1] else (delta - infinity_mass[0])
    ladder = tabulate_cgf(parts)
    if not np.isfinite(ladder.k).any():  # K is out of reach at every c
        return 0.0, total_max_loss(parts)
    tilt = find_saddle_point_for_delta(parts, ladder, aim)
    low, high, share = 0.0, tilt.max_loss, 1.0
    if delta > infinity_mass[1]:
        high = min(
            high, tilt.cgf_table.chernoff_epsilon((delta - infinity_mass[1]) * (1 - 2**-50)) * (1 + 2**-50)
        )  # Chernoff's, come what may
    start = tilt.epsilon
    if start >= tilt.max_loss * (1 - 64 * rtol):  # as good as pure: is δ still above delta just below the largest loss?
        low = _settle_below_max_loss(parts, tilt, delta, infinity_mass, rtol)
        if high - low <= rtol * high:
            return low, high
    for attempt in range(_TRIES):
        tolerance = share * min(0.1, rtol * max(1e-3, tilt.c * tilt.epsilon))
        path = fit_contour(parts, tilt, tolerance, log(aim))
        guess = solve_newton(path, aim, tilt.epsilon)
        if attempt == 0 and abs(guess - tilt.epsilon) * tilt.c > 0.5:  # the saddle has moved: put the line there
            tilt = find_saddle_point(parts, tilt.cgf_table, guess)
            path = fit_contour(parts, tilt, share * min(0.1, rtol * max(1e-3, tilt.c * guess)), log(aim))
            guess = solve_newton(path, aim, guess)
        near = invert(partial(bound_delta_at, path, infinity_mass), delta, guess, rtol / 8, tries=16)
        if near == (0.0, inf) and isfinite(high):  # Newton went astray, perhaps: where does the same line cross delta?
            near = invert(
                partial(bound_delta_at, path, infinity_mass),
                delta,
                _find_crossing(path, infinity_mass, delta, high),
                rtol / 8,
                tries=16,
            )
        low, high = max(low, near[0]), min(high, near[1])
        if near == (0.0, inf) and attempt < 2:  # out of reach: less will have to do
            share *= 256
            continue
        if high - low <= rtol * high or near == (0.0, inf) or share > 1 or _has_all_nodes(path):
            break
        share /= 16
    return (low, high) if low > 0 else (_find_lower_epsilon(parts, tilt, delta, infinity_mass, min(high, start)), high)


def _find_crossing(contour: Contour, infinity_mass: tuple[float, float], delta: float, high: float) -> float:
    """Where the middle of the line's bounds meets delta, by bisection from 0 to `high`."""
    low = 0.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(bound_delta_at(contour, infinity_mass, middle)) / 2 > delta else (low, middle)
    return high


def _has_all_nodes(contour: Contour) -> bool:
    """Whether the line has all the nodes it may have: a finer one would only be the same again."""
    return contour.reach / contour.step > _MAX_NODES - 2


def _find_lower_epsilon(
    parts: Parts, saddle: SaddlePoint, delta: float, infinity_mass: tuple[float, float], high: float
) -> float:
    """An ε where δ is certainly above delta, some way below `high`, where nothing near it could be settled."""
    for share in (1e-5, 1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.5):
        there = find_saddle_point(parts, saddle.cgf_table, (1 - share) * high)
        if (
            _add_infinity_mass(fit_contour(parts, there, 0.1, there.log_delta).bound_delta(there.epsilon), infinity_mass)[0]
            > delta
        ):
            return there.epsilon
    return 0.0


def _settle_below_max_loss(
    parts: Parts, saddle: SaddlePoint, delta: float, infinity_mass: tuple[float, float], rtol: float
) -> float:
    """The largest loss less a part in 1/rtol, if δ there is certainly above delta; else 0."""
    epsilon = saddle.max_loss * (1 - 0.9 * rtol)
    there = find_saddle_point(parts, saddle.cgf_table, epsilon)
    found = fit_contour(parts, there, 0.1, there.log_delta).bound_delta(epsilon)
    return epsilon if _add_infinity_mass(found, infinity_mass)[0] > delta else 0.0


def bound_delta_at(contour: Contour, infinity_mass: tuple[float, float], epsilon: float) -> tuple[float, float]:
    """δ at ε with the mass at infinity `extra`."""
    return _add_infinity_mass(contour.bound_delta(epsilon), infinity_mass)


def _add_infinity_mass(finite: tuple[float, float], infinity_mass: tuple[float, float]) -> tuple[float, float]:
    return finite[0] + infinity_mass[0] * (1 - 2**-52), (finite[1] + infinity_mass[1]) * (1 + 2**-52)


def solve_newton(contour: Contour, delta: float, start: float) -> float:
    """Where the smoothed curve, without its error, meets delta; ln δ is nearly linear in ε."""
    epsilon = start
    for _ in range(30):
        value, slope = contour.delta_and_slope(epsilon)
        if not (value > 0 and slope < 0):
            epsilon = epsilon * 0.75
            continue
        move = value / slope * log(value / delta)
        move = max(-0.5 * epsilon - 1e-3, min(move, 2 * epsilon + 1e-3))
        epsilon = max(0.0, epsilon - move)
        if abs(move) <= 1e-13 * epsilon or epsilon == 0.0:
            break
    return epsilon


def invert(
    bounds: Callable[[float], tuple[float, float]], delta: float, guess: float, margin: float, tries: int = 60
) -> tuple[float, float]:
    """Ends that were tried: δ's upper bound is at most delta at the right one, its lower bound above it at the left.

    Where none is found in `tries` doublings of the step, the end is ∞ or 0: true, and no reason to go on.
    """
    right, step = guess, max(guess, 1e-9) * margin
    for _ in range(tries):
        right += step
        if bounds(right)[1] <= delta:
            break
        step *= 2
    else:
        right = inf
    left, step = guess, max(guess, 1e-9) * margin
    for _ in range(tries):
        left -= step
        if left <= 0 or bounds(left)[0] > delta:
            break
        step *= 2
    else:
        left = 0.0
    return max(0.0, left), 0.0 if bounds(0.0)[1] <= delta else right


def chernoff_delta(parts: Parts, epsilon: float) -> float:
    """min over c of B(c)·e^{K(c) − cε} on a fine ladder: all that a bound on K can say about δ."""
    tilt = find_saddle_point(parts, tabulate_cgf(parts), epsilon)
    return min(1.0, exp(min(0.0, float(np.min(tilt.cgf_table.chernoff(epsilon))))) * (1 + 2**-48))


def chernoff_epsilon(parts: Parts, delta: float) -> float:
    """The least ε whose Chernoff bound is at most delta, over a ladder refined twice."""
    ladder = tabulate_cgf(parts)
    for width in (1.0, 1 / 8):
        ladder = CgfTable.of(parts, ladder.best_c(delta) * _NEAR**width)
    return ladder.chernoff_epsilon(delta)
