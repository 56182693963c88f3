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

from discreet.accounting.contour import Line
from discreet.accounting.ladder import Ladder, Parts, envelope, largest
from discreet.accounting.laws import Floats
from discreet.accounting.nodes import prepare, short

_NODES = 1 << 17
_COARSE = 2.0 ** np.arange(-20, 30.5, 0.5)
_NEAR = 2.0 ** np.linspace(-0.5, 0.5, 17)[1:-1]
_TRIES = 4


@dataclass(frozen=True, slots=True)
class Tilt:
    """A choice of c for one ε, and roughly what ln δ and the curvature of K are there."""

    c: float
    epsilon: float
    log_delta: float
    ladder: Ladder
    most: float


def coarse(parts: Parts) -> Ladder:
    """K on all scales that a c can have."""
    return Ladder.of(parts, _COARSE)


def tilt_at(parts: Parts, ladder: Ladder, epsilon: float) -> Tilt:
    """The saddle point of e^{K(c) − cε}/(c(c + 1)), to a few per cent."""
    start = float(ladder.c[np.argmin(_height(ladder, epsilon))])
    near = Ladder.of(parts, start * _NEAR)
    every = np.concatenate([ladder.c, near.c])
    order = np.argsort(every, kind="stable")
    both = Ladder(every[order], np.concatenate([ladder.k, near.k])[order])
    best = int(np.argmin(_height(both, epsilon)))
    c = float(both.c[best])
    return Tilt(c, epsilon, float(_height(both, epsilon)[best]) - log(_spread(both, best)), both, largest(parts))


def tilt_for(parts: Parts, ladder: Ladder, delta: float) -> Tilt:
    """The tilt for the ε of this δ: by Chernoff's bound, which is a little too large, then by the saddle point."""
    epsilon = ladder.epsilon(delta)
    tilt = tilt_at(parts, ladder, epsilon if isfinite(epsilon) else 1.0)
    nearer = tilt.epsilon + (tilt.log_delta - log(delta)) / tilt.c  # ln δ falls by about c per unit of ε
    return replace(tilt, epsilon=max(tilt.epsilon - 20 / tilt.c, min(nearer, tilt.epsilon), 0.0), log_delta=log(delta))


def _height(ladder: Ladder, epsilon: float) -> Floats:
    with np.errstate(invalid="ignore"):
        value = ladder.k - ladder.c * epsilon - np.log(ladder.c) - np.log1p(ladder.c)
    return np.where(np.isnan(value), inf, value)


def _spread(ladder: Ladder, at: int) -> float:
    """√(2π·(ln e^{K − cε}/(c(c+1)))''), by differences: the saddle's height over this is about δ."""
    lo, hi = max(0, at - 4), min(len(ladder.c) - 1, at + 4)
    x, y = ladder.c[[lo, at, hi]], (ladder.k - np.log(ladder.c) - np.log1p(ladder.c))[[lo, at, hi]]
    if lo == at or hi == at or not np.isfinite(y).all():
        return 1 / float(x[1])
    second = 2 * ((y[2] - y[1]) / (x[2] - x[1]) - (y[1] - y[0]) / (x[1] - x[0])) / (x[2] - x[0])
    return sqrt(2 * pi * max(1 / float(x[1]) ** 2, float(second)))


def line(parts: Parts, tilt: Tilt, tolerance: float, log_delta: float, stretch: float = 1.0) -> Line:
    """A contour at this tilt that should give δ to a relative `tolerance`, if ln δ is about `log_delta`.

    `stretch` > 1 makes the period longer than needed, for totals that will grow.
    """
    c, aim = tilt.c, log_delta + log(tolerance) - 4
    step = short(2 * pi / (stretch * _period(tilt, aim)))
    base = float(tilt.ladder.k[np.searchsorted(tilt.ladder.c, c)])
    small = aim - (base - c * tilt.epsilon) - log(step / pi)  # ln of what Σ terms may be wrong by
    most = _NODES
    for count in natural_counts(parts, c, step, min(most, 4096)):
        if envelope(parts, c, step * (count - 1)) / (step**2 * count) <= exp(min(0.0, small)):
            return prepare(parts, tilt.ladder, c, step, count, 0.0, small - log(count))
    smooth = 0.4 * tolerance / (c * (c + 1))
    depth = max(8.0, -small)
    count = min(most, ceil(sqrt(2 * depth / smooth) / step) + 2)
    smooth = max(smooth, 2 * depth / (step * (count - 1)) ** 2)
    return prepare(parts, tilt.ladder, c, step, count, smooth, small - log(count))


def natural_counts(parts: Parts, c: float, step: float, most: int) -> tuple[int, ...]:
    """Numbers of nodes to try without smoothing: none where even the largest has no decay to show."""
    counts = tuple(count for count in (64, 256, 1024, 4096) if count <= most)
    return counts if counts and envelope(parts, c, step * (counts[-1] - 1)) < 1e-9 else ()


def _period(tilt: Tilt, aim: float) -> float:
    """T such that Chernoff's bounds on the aliases at ε ± T are below e^aim."""
    t, logs = tilt.ladder.c, tilt.ladder.chernoff(tilt.epsilon)
    gap = np.abs(t - tilt.c)
    with np.errstate(divide="ignore", invalid="ignore"):
        need = np.where(np.isfinite(logs) & (gap > 0), (logs - aim) / gap, inf)
    left = min(-aim / tilt.c, float(np.min(need[t < tilt.c], initial=inf)))
    right = float(np.min(need[t > tilt.c], initial=inf))
    right = min(right, max(0.0, tilt.most - tilt.epsilon) + 0.5 / tilt.c)  # nothing is above the largest loss
    return 1.05 * max(left, right if isfinite(right) else left, 1e-3 / tilt.c)


def finite_delta(parts: Parts, epsilon: float, rtol: float) -> tuple[float, float]:
    """The finite part of δ(ε), by contour."""
    if epsilon >= largest(parts):
        return 0.0, 0.0
    tilt = tilt_at(parts, coarse(parts), epsilon)
    if not isfinite(tilt.log_delta):  # K is out of reach at every c
        return 0.0, 1.0
    log_delta, low, high = tilt.log_delta, 0.0, 1.0
    tolerance = rtol
    for _ in range(_TRIES):
        path = line(parts, tilt, tolerance, log_delta)
        at_low, at_high = path.bounds(epsilon)
        low, high = max(low, at_low), min(high, at_high)
        if high - low <= rtol * high or high < 1e-305 or _longest(path):
            break
        tolerance, log_delta = tolerance / 4, min(log_delta, log(max(low, high * 1e-3)))
    return low, high


def finite_epsilon(parts: Parts, delta: float, rtol: float, extra: tuple[float, float]) -> tuple[float, float]:
    """The ε where δ(ε) = delta, if mass `extra` (between two doubles) is at infinity and the rest on the contour."""
    aim = delta - extra[1] if delta > extra[1] else (delta - extra[0])
    ladder = coarse(parts)
    if not np.isfinite(ladder.k).any():  # K is out of reach at every c
        return 0.0, largest(parts)
    tilt = tilt_for(parts, ladder, aim)
    low, high, share = 0.0, tilt.most, 1.0
    if delta > extra[1]:
        high = min(high, tilt.ladder.epsilon((delta - extra[1]) * (1 - 2**-50)) * (1 + 2**-50))  # Chernoff's, come what may
    start = tilt.epsilon
    if start >= tilt.most * (1 - 64 * rtol):  # as good as pure: is δ still above delta just below the largest loss?
        low = _below(parts, tilt, delta, extra, rtol)
        if high - low <= rtol * high:
            return low, high
    for attempt in range(_TRIES):
        tolerance = share * min(0.1, rtol * max(1e-3, tilt.c * tilt.epsilon))
        path = line(parts, tilt, tolerance, log(aim))
        guess = newton(path, aim, tilt.epsilon)
        if attempt == 0 and abs(guess - tilt.epsilon) * tilt.c > 0.5:  # the saddle has moved: put the line there
            tilt = tilt_at(parts, tilt.ladder, guess)
            path = line(parts, tilt, share * min(0.1, rtol * max(1e-3, tilt.c * guess)), log(aim))
            guess = newton(path, aim, guess)
        near = invert(partial(reading, path, extra), delta, guess, rtol / 8, tries=16)
        if near == (0.0, inf) and isfinite(high):  # Newton went astray, perhaps: where does the same line cross delta?
            near = invert(partial(reading, path, extra), delta, _crossing(path, extra, delta, high), rtol / 8, tries=16)
        low, high = max(low, near[0]), min(high, near[1])
        if near == (0.0, inf) and attempt < 2:  # out of reach: less will have to do
            share *= 256
            continue
        if high - low <= rtol * high or near == (0.0, inf) or share > 1 or _longest(path):
            break
        share /= 16
    return (low, high) if low > 0 else (_some_lower(parts, tilt, delta, extra, min(high, start)), high)


def _crossing(path: Line, extra: tuple[float, float], delta: float, high: float) -> float:
    """Where the middle of the line's bounds meets delta, by bisection from 0 to `high`."""
    low = 0.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(reading(path, extra, middle)) / 2 > delta else (low, middle)
    return high


def _longest(path: Line) -> bool:
    """Whether the line has all the nodes it may have: a finer one would only be the same again."""
    return path.reach / path.step > _NODES - 2


def _some_lower(parts: Parts, tilt: Tilt, delta: float, extra: tuple[float, float], high: float) -> float:
    """An ε where δ is certainly above delta, some way below `high`, where nothing near it could be settled."""
    for share in (1e-5, 1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.5):
        there = tilt_at(parts, tilt.ladder, (1 - share) * high)
        if _with(line(parts, there, 0.1, there.log_delta).bounds(there.epsilon), extra)[0] > delta:
            return there.epsilon
    return 0.0


def _below(parts: Parts, tilt: Tilt, delta: float, extra: tuple[float, float], rtol: float) -> float:
    """The largest loss less a part in 1/rtol, if δ there is certainly above delta; else 0."""
    epsilon = tilt.most * (1 - 0.9 * rtol)
    there = tilt_at(parts, tilt.ladder, epsilon)
    found = line(parts, there, 0.1, there.log_delta).bounds(epsilon)
    return epsilon if _with(found, extra)[0] > delta else 0.0


def reading(path: Line, extra: tuple[float, float], epsilon: float) -> tuple[float, float]:
    """δ at ε with the mass at infinity `extra`."""
    return _with(path.bounds(epsilon), extra)


def _with(finite: tuple[float, float], extra: tuple[float, float]) -> tuple[float, float]:
    return finite[0] + extra[0] * (1 - 2**-52), (finite[1] + extra[1]) * (1 + 2**-52)


def newton(path: Line, delta: float, start: float) -> float:
    """Where the smoothed curve, without its error, meets delta; ln δ is nearly linear in ε."""
    epsilon = start
    for _ in range(30):
        value, slope = path.slope(epsilon)
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
    tilt = tilt_at(parts, coarse(parts), epsilon)
    return min(1.0, exp(min(0.0, float(np.min(tilt.ladder.chernoff(epsilon))))) * (1 + 2**-48))


def chernoff_epsilon(parts: Parts, delta: float) -> float:
    """The least ε whose Chernoff bound is at most delta, over a ladder refined twice."""
    ladder = coarse(parts)
    for width in (1.0, 1 / 8):
        ladder = Ladder.of(parts, ladder.best(delta) * _NEAR**width)
    return ladder.epsilon(delta)
