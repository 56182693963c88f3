"""δ(ε) by the trapezoid rule on a vertical line, with every error bounded and added.

For a total with finite part M(z) = E_P[e^{zL}], L's finite δ is (1/2πi)∫ M(z)e^{-zε}/(z(z + 1)) dz on Re z = c > 0.
With step h and T = 2π/h, Poisson summation gives exactly

    (h/2π)·Σ_n M(c + inh)·e^{-(c + inh)ε}/(z(z + 1)) = Σ_j e^{cjT}·δ(ε + jT),

all terms ≥ 0: the sum is an *upper* bound, and Chernoff's δ(x) ≤ B(t)·e^{K(t) − tx}, B(t) = t^t/(1 + t)^{1+t}, bounds
what it has too much. The tilt e^{K(c) − cε} is factored out, so accuracy is relative however small δ is.

Losses with atoms do not decay along the line. Then a small Gaussian N(μ²/2, μ²) is composed with the total: its curve D_μ is
never below δ (more was released), and it brings its own decay e^{-μ²s²/2}, which makes the truncation a theorem. It
is not far above either. Seen as a function of e^ε, δ is a mixture ∫ (e^l − e^ε)₊ Q(dl) of kinks, and for one kink at
distance t the excess is f_μ(t) = δ_μ(|t|)·e^{min(t,0)} = ∫₀^μ e^{-m²/8 − t²/2m² + |t|/2}dm/√2π·e^{min(t,0)};
substituting m → √2·m shows f_{√2μ} ≥ √2·e^{-μ²/8}·f_μ. Integrating over the kinks, D_{√2μ} − D_μ ≥ κ·(D_μ − δ) with κ
= √2·e^{-μ²/8} − 1, for *every* loss:

    δ ≥ D_μ − (D_{√2μ} − D_μ)/κ.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, exp, expm1, frexp, fsum, inf, isfinite, ldexp, log, log1p, pi, sqrt

import numpy as np

from discreet.accounting.pld import EPS, Complexes, Floats
from discreet.accounting.pld.cgf import CgfTable, Parts, total_decay_bound, total_max_loss


@dataclass(frozen=True, slots=True)
class Contour:
    """A prepared contour: the nodes' sum at any ε costs one exponential each."""

    c: float
    step: float
    s: Floats
    logs: Complexes  # Σ times·ln(M(c + is)/e^base), over the parts
    slack: Floats  # the true product is within a factor e^{±slack} in size, in the sense of |x − y| ≤ |x|·(e^slack − 1)
    base: float  # Σ times·base
    base_error: float
    tail: float  # what the nodes that were left out below `reach` can add to Σ|terms|
    reach: float  # past here the parts are known by their envelope only
    envelope: float  # their product there, over its value at s = 0
    smoothing: float  # μ² of the Gaussian that is composed, or 0
    log_cutoff: float  # ln of the size below which a node's term is not worth keeping
    cgf_table: CgfTable
    max_loss: float  # no finite loss is above this

    def bound_delta(self, epsilon: float) -> tuple[float, float]:
        """The finite part of δ at ε between two doubles."""
        if self._is_too_smooth():
            return 0.0, 1.0
        low, high = self._bound_smoothed_delta(epsilon, self.smoothing)
        if self.smoothing == 0:
            return low, high
        kappa = sqrt(2) * exp(-self.smoothing / 8) * (1 - 4 * EPS) - 1
        if kappa < 0.1:  # past μ² = 2.77 the lemma is silent, and just before it says next to nothing
            return 0.0, high
        _, above = self._bound_smoothed_delta(epsilon, 2 * self.smoothing)
        return max(0.0, low - (above - low) / kappa * (1 + 8 * EPS)), high

    def _is_too_smooth(self) -> bool:
        """A smoothing wider than the tilt's own scale says nothing, and would overflow."""
        return self.smoothing * self.c * (self.c + 1) > 600

    def delta_and_slope(self, epsilon: float) -> tuple[float, float]:
        """δ of the smoothed total at ε and its derivative, without error bounds: for searching only."""
        if self._is_too_smooth():
            return 0.0, 0.0
        terms = self._terms(epsilon, self.smoothing)
        z = self.c + 1j * self.s
        scale = exp(min(700.0, self.base - self.c * epsilon)) * self.step / pi
        return scale * float(terms.real.sum()), -scale * float((terms * z).real.sum())

    def _terms(self, epsilon: float, smoothing: float) -> Complexes:
        z = self.c + 1j * self.s
        power = self.logs - 1j * self.s * epsilon + smoothing / 2 * z * (z + 1)
        terms = np.asarray(np.exp(power) / (z * (z + 1)))
        terms[0] /= 2  # s = 0 stands once in a sum over both signs
        return terms

    def _bound_terms(self, smoothing: float) -> Floats:
        """A bound on the size of each true term."""
        lift = smoothing / 2 * (self.c * (self.c + 1) - self.s**2)
        return np.asarray(np.exp(np.minimum(self.logs.real + self.slack + lift, 700.0)) / (self.c**2 + self.s**2))

    def _bound_smoothed_delta(self, epsilon: float, smoothing: float) -> tuple[float, float]:
        terms = self._terms(epsilon, smoothing)
        size = np.abs(terms)
        rough = 8 * EPS * (4 + self.s * abs(epsilon) + smoothing * (self.c + 1 + self.s) ** 2 + log1p(len(size)))
        # |x|·(e^slack − 1), written so that a huge slack meets the tiny |x| it belongs to before it overflows.
        wrong = np.where(self.slack < 1, size * np.expm1(np.minimum(self.slack, 1)), self._bound_terms(smoothing))
        rest = self.tail + _bound_nodes_beyond(self.reach, self.step, smoothing) * self.envelope
        lift = exp(min(700.0, smoothing / 2 * self.c * (self.c + 1)))
        error = float((size * rough + wrong).sum()) + rest * lift
        total = float(terms.real.sum())
        scale, slip = (
            self.base - self.c * epsilon,
            self.base_error + 4 * EPS * (abs(self.base) + self.c * abs(epsilon)),
        )
        width = self.step / pi
        if not (isfinite(total) and isfinite(error) and isfinite(scale + slip)):
            return 0.0, 1.0  # some double overflowed on the way: nothing is known
        high = _exp_up(scale + slip + _log(width * (total + error) * (1 + 8 * EPS)))
        low = _exp_down(scale - slip + _log(width * (total - error) * (1 - 8 * EPS)))
        return max(0.0, low - self._bound_aliases(epsilon, smoothing)), min(1.0, high)

    def _bound_aliases(self, epsilon: float, smoothing: float) -> float:
        """Σ_{j≠0} e^{cjT}·δ(ε + jT), by Chernoff's bound at a t below c for j < 0 and at one above for j > 0."""
        period = 2 * pi / self.step * (1 - 4 * EPS)
        t = self.cgf_table.c
        logs = self.cgf_table.chernoff(epsilon) + smoothing / 2 * t * (t + 1) * (1 + 8 * EPS)
        gap = np.abs(self.c - t) * period
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            sums = np.exp(np.minimum(logs - gap - np.log(-np.expm1(-gap)), 700.0))
        left = min(np.min(sums[t < self.c], initial=inf), exp(-self.c * period) / -expm1(-self.c * period))
        right = min(np.min(sums[t > self.c], initial=inf), self._bound_aliases_above(epsilon, smoothing, period))
        return float(left + right) * (1 + 64 * EPS)

    def _bound_aliases_above(self, epsilon: float, smoothing: float, period: float) -> float:
        """The aliases above ε if no loss is above `most`: there is nothing left but the smoothing's tail, K(t) ≤ t·most."""
        past = epsilon + period - self.max_loss
        if not past > 0:
            return inf
        if smoothing == 0:
            return 0.0
        t = past / smoothing  # > c, or the bound below says nothing
        power = self.c * period + smoothing / 2 * t * (t + 1) - t * past
        return exp(min(700.0, power + 1e-12 * t * past)) / -expm1(-(t - self.c) * period) if t > 2 * self.c else inf


def _bound_nodes_beyond(reach: float, step: float, smoothing: float) -> float:
    """Σ over nodes s > reach of e^{-smooth·s²/2}/s²; at most e^{-smooth·reach²/2}/(step·reach)."""
    return exp(-smoothing * reach * reach / 2) / (step * reach) * (1 + 8 * EPS)


def _log(x: float) -> float:
    return log(x) if x > 0 else -inf


def _exp_up(x: float) -> float:
    return 1.0 if x > 0 else exp(x) * (1 + 8 * EPS) + 5e-324


def _exp_down(x: float) -> float:
    return exp(min(x, 0.0)) * (1 - 8 * EPS)


# Filling a contour with the values of the laws at its nodes, and leaving out the nodes that provably do not matter.
#
# For every law |M(c + is)| ≤ M(c). So the product over *some* of the parts bounds the size of a node's whole term, for
# now and for every part that is composed later: a node below e^cut is dropped for good, and its bound is added to the error.
# This is not
# "the term is small, stop": every node is looked at, and lattice losses may revive as they like.


_BLOCK = 1 << 17  # nodes times parts worked on at once, but at least 2^13 nodes
_MANY_PARTS = 12  # parts from which on a cheap bound is taken first


def round_step(step: float) -> float:
    """`step` rounded down to 24 bits, so that its multiples by whole numbers below 2^29 are exact doubles."""
    mantissa, exponent = frexp(step)
    return ldexp(int(mantissa * (1 << 24)), exponent - 24)


def build_contour(
    parts: Parts, cgf_table: CgfTable, c: float, step: float, count: int, smoothing: float, log_cutoff: float
) -> Contour:
    """A contour with nodes n·step, n < count, for these parts."""
    s, reach = step * np.arange(float(count)), step * (count - 1)
    zeros = np.zeros(count)
    empty = Contour(
        c, step, s, zeros.astype(complex), zeros, 0.0, 0.0, 0.0, reach, 1.0, smoothing, log_cutoff, cgf_table, 0.0
    )
    return extend_contour(drop_nodes_early(empty, parts), parts, cgf_table)


def extend_contour(contour: Contour, parts: Parts, cgf_table: CgfTable) -> Contour:
    """The contour of what it had and `parts` together; `ladder` is K of all of it."""
    reals = [law.cgf(np.array([contour.c])) for law, _ in parts]
    bases = [float(value[0]) for value, _ in reals]
    # |M(c + is)| ≤ M(c) ≤ e^{base + error}: what parts can contribute at nodes that were dropped before they were looked at.
    excess = exp(min(700.0, fsum(times * float(error[0]) for (_, times), (_, error) in zip(parts, reals, strict=True))))
    products = [base * times for base, (_, times) in zip(bases, parts, strict=True)]
    size = max(1 << 13, _BLOCK // max(1, len(parts)))
    blocks = [_extend_block(contour, parts, bases, slice(i, i + size)) for i in range(0, len(contour.s), size)]
    return replace(
        contour,
        s=np.concatenate([block.s for block in blocks]),
        logs=np.concatenate([block.logs for block in blocks]),
        slack=np.concatenate([block.slack for block in blocks]),
        base=contour.base + fsum(products),
        base_error=contour.base_error + 2 * EPS * fsum(abs(p) for p in products) + EPS * abs(contour.base),
        tail=(contour.tail + fsum(block.tail for block in blocks)) * excess,
        envelope=contour.envelope * total_decay_bound(parts, contour.c, contour.reach) * excess,
        cgf_table=cgf_table,
        max_loss=contour.max_loss + total_max_loss(parts),
    )


def _extend_block(contour: Contour, parts: Parts, bases: list[float], part: slice) -> Contour:
    """Some of the nodes with all parts multiplied in; `tail` is what was dropped among them."""
    block = replace(contour, s=contour.s[part], logs=contour.logs[part], slack=contour.slack[part], tail=0.0)
    logs, slack = block.logs, block.slack
    for i, ((law, times), base) in enumerate(zip(parts, bases, strict=True)):
        ratio = law.mgf_ratio(contour.c, base, block.s)
        size = ratio.log.real
        wide = np.logaddexp(np.log(ratio.error + 1e-300), size) - size  # ln((|r| + error)/|r|)
        slack = slack + float(times) * (wide * (1 + 8 * EPS) + 4 * EPS * (1 + np.abs(ratio.log)))
        logs = logs + float(times) * ratio.log
        slack = slack + EPS * np.abs(logs)  # the rounding of this addition
        if i + 1 == len(parts) or i % 8 == 7:
            block = drop_small_nodes(replace(block, logs=logs, slack=slack), logs.real + slack)
            logs, slack = block.logs, block.slack
    return block


def drop_small_nodes(contour: Contour, size: Floats) -> Contour:
    """Without the nodes whose terms stay below e^cut, given bounds on ln|Π M/M(c)| there."""
    bound = size - contour.smoothing / 2 * contour.s * contour.s - 2 * np.log(np.maximum(contour.s, contour.c))
    keep = (bound > min(contour.log_cutoff, 600.0)) | (contour.s == 0)  # e^600 is already no bound at all
    if keep.all():
        return contour
    lost = float(np.exp(np.minimum(bound[~keep], 700.0)).sum()) * (1 + 1e-9)
    return replace(contour, s=contour.s[keep], logs=contour.logs[keep], slack=contour.slack[keep], tail=contour.tail + lost)


def drop_nodes_early(contour: Contour, parts: Parts) -> Contour:
    """Drop, by cheap bounds on |M| alone, most of the nodes that many parts together make small."""
    if len(parts) < _MANY_PARTS or len(contour.s) < 1024:
        return contour
    near = contour.s[:256]
    total, size = (
        replace(contour, s=contour.s[256:], logs=contour.logs[256:], slack=contour.slack[256:]),
        np.zeros(len(contour.s) - 256),
    )
    for i, (law, times) in enumerate(parts):
        size = size + float(times) * law.modulus_bounds(contour.c, total.s)
        if i % 8 == 7 or i + 1 == len(parts):
            before = total.s
            total = drop_small_nodes(total, size)
            if len(total.s) < len(before):
                size = size[np.isin(before, total.s, assume_unique=True)]
    keep = len(near)
    return replace(
        total,
        s=np.concatenate([near, total.s]),
        logs=np.concatenate([contour.logs[:keep], total.logs]),
        slack=np.concatenate([contour.slack[:keep], total.slack]),
    )


# Where to put the contour: its tilt c, its step and its length, for one side of one composition.
#
# Nothing here can make an interval false: `Contour` proves what it returns whatever c, step and length are. A bad
# choice only makes it wide. Work is bounded: at most `_MAX_NODES` nodes and a fixed number
# of tries.


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
