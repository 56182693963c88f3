"""δ(ε) of a sum of privacy losses, by a contour integral with every error bounded.

**Theory of operation.** For losses with finite part M(z) = E_P[e^{zL}], the finite part of δ is
(1/2πi)∫ M(z)e^{-zε}/(z(z + 1)) dz on the line Re z = c > 0. With step h and T = 2π/h, Poisson summation gives exactly

    (h/2π)·Σ_n M(c + inh)·e^{-(c + inh)ε}/(z(z + 1)) = Σ_j e^{cjT}·δ(ε + jT),

all terms ≥ 0: the trapezoid sum is an *upper* bound, and Chernoff's δ(x) ≤ B(t)·e^{K(t) − tx}, B(t) = t^t/(1 + t)^{1+t},
bounds the aliases j ≠ 0, which it has too much. The factor e^{K(c) − cε} is taken out, so accuracy is relative however small
δ is.

1. `CgfTable` tabulates K = ln M, the cumulant-generating function, at real points: composition adds it.
2. `find_saddle_point` chooses c, where the integrand is smallest on the real axis; `fit_contour` chooses the step and the
   length. Nothing here can make an interval false: `Contour` proves what it returns whatever c, step and length are. A bad
   choice only makes it wide. Work is bounded: at most `_MAX_NODES` nodes and a fixed number of tries.
3. `build_contour` multiplies in the distributions at the nodes and drops the nodes that provably do not matter. For every
   distribution |M(c + is)| ≤ M(c), so the product over *some* of the parts bounds the size of a node's whole term, for now
   and for every part that is composed later: a node below e^`log_cutoff` is dropped for good, and its bound is added to the
   error. This is not "the term is small, stop": every node is looked at, and lattice losses may revive.
4. `Contour.bound_delta` sums the nodes at any ε, at the cost of one exponential each; `bound_epsilon_by_contour` inverts it.

**Smoothing.** Losses with atoms do not decay along the line. Then a small Gaussian N(μ²/2, μ²) is composed with the total:
its curve D_μ is never below δ (more was released), and it brings its own decay e^{-μ²s²/2}, which makes the truncation a
theorem. **Proof** that it is not far above either: seen as a function of e^ε, δ is a mixture ∫ (e^l − e^ε)₊ Q(dl) of kinks,
and for one kink at distance t the excess is f_μ(t) = δ_μ(|t|)·e^{min(t,0)}, which is
∫₀^μ e^{-m²/8 − t²/2m² + |t|/2}dm/√2π·e^{min(t,0)}; substituting m → √2·m shows f_{√2μ} ≥ √2·e^{-μ²/8}·f_μ. Integrating
over the kinks, D_{√2μ} − D_μ ≥ κ·(D_μ − δ) with κ = √2·e^{-μ²/8} − 1, for *every* loss:

    δ ≥ D_μ − (D_{√2μ} − D_μ)/κ.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import ceil, exp, expm1, frexp, fsum, inf, isfinite, ldexp, log, log1p, pi, sqrt

import numpy as np

from discreet._numbers import invert_falling, nearest_float
from discreet.accounting.pld import EPS, Complexes, Floats, Interval, MgfRatio, Part, Parts, Pld

_MAX_NODES = 1 << 17
_MAX_TRIES = 4
_MAX_CLIMB = 2.0  # how far above the saddle point's height, in logarithms, a contour may lie
_MAX_SMOOTHING = 600  # in units of the saddle point's own scale: past that a smoothed sum says nothing, and would overflow
_COARSE = 2.0 ** np.arange(-20, 30.5, 0.5)
_NEAR = 2.0 ** np.linspace(-0.5, 0.5, 17)[1:-1]
_BLOCK = 1 << 17  # nodes times parts worked on at once, but at least 2^13 nodes
_ROUGHLY = 1e-3  # the tolerance of a first guess
_MANY_PARTS = 12  # parts from which on a cheap bound is taken first


# K = ln M of a whole composition at real points.


@dataclass(frozen=True, slots=True)
class CgfTable:
    """K of a whole composition at real points, rounded up: what Chernoff bounds and the choice of c need."""

    c: Floats
    k: Floats

    @classmethod
    def of(cls, parts: Parts, c: Floats = _COARSE) -> "CgfTable":
        """K at these points; by default on all scales that a c can have."""
        total = np.zeros_like(c)
        for pld, times in parts:
            value, error = pld.cgf(c)
            total = total + float(times) * (value + error + 2 * EPS * np.abs(value))
        return cls(c, total + 4 * EPS * len(parts) * np.abs(total))

    def plus(self, other: "CgfTable") -> "CgfTable":
        """K of both together, on the same points."""
        total = self.k + other.k
        return CgfTable(self.c, total + 2 * EPS * np.abs(total))

    def chernoff(self, epsilon: float) -> Floats:
        """ln of a bound on the finite δ(ε), for every c: K(c) − cε + ln B(c), rounded up.

        ln B(c) = ln max_x (1 − e^{-x})e^{-cx} = c·ln c − (1 + c)·ln(1 + c).
        """
        log_one = np.log1p(self.c)
        log_peak = -self.c * np.log1p(1 / self.c) - log_one + 8 * EPS * (1 + log_one)
        return np.asarray(self.k - self.c * epsilon + log_peak + 4 * EPS * (np.abs(self.k) + self.c * epsilon))

    def chernoff_epsilons(self, delta: float) -> Floats:
        """For every c the ε at which its Chernoff bound is delta: all of them are upper bounds."""
        with np.errstate(invalid="ignore"):
            above = (self.chernoff(0.0) - log(delta) + 1e-13 * abs(log(delta))) / self.c
        return np.where(np.isfinite(above), above * (1 + 2**-48 * np.sign(above)), inf)

    def chernoff_epsilon(self, delta: float) -> float:
        """The least of them, and not below 0."""
        return max(0.0, float(np.min(self.chernoff_epsilons(delta))))

    def best_c(self, delta: float) -> float:
        """The c of the least of them."""
        return float(self.c[np.argmin(self.chernoff_epsilons(delta))])


@lru_cache(maxsize=16)
def coarse_table(parts: tuple[Part, ...]) -> CgfTable:
    """K on all scales: both ends of an interval, and both tries at it, need the same."""
    return CgfTable.of(parts)


def total_max_loss(parts: Parts) -> float:
    """No finite loss is above this."""
    size = fsum(times * abs(pld.max_loss) for pld, times in parts)
    return fsum(times * pld.max_loss for pld, times in parts) + 1e-14 * size if size < inf else inf


def total_decay_bound(parts: Parts, c: float, s: float, log_enough: float) -> float:
    """A bound on Π|M(c + it)/M(c)|^times for all t ≥ s; a better one than e^`log_enough` is not looked for."""
    quick = fsum(times * pld.quick_decay_bound(c, s) for pld, times in parts)
    found = quick if quick <= log_enough < 0 else fsum(times * pld.decay_bound(c, s) for pld, times in parts)
    return exp(min(0.0, quick, found))


class CgfBound(Pld):
    """Not a distribution but a bound on K, where no single pair is worst: nothing is known off the real line."""

    __slots__ = ()

    def mgf_ratio(self, c: float, base: float, s: Floats) -> MgfRatio:
        """As in `Pld`: an error that makes every value useless."""
        return MgfRatio(np.zeros(len(s), dtype=np.complex128), np.full(len(s), 2.0))


@dataclass(frozen=True, slots=True)
class CgfEnvelope(CgfBound):
    """The largest K of several compositions where any of them may have run (`worst`), the least where all are bounds."""

    choices: tuple[Parts, ...]
    worst: bool

    @property
    def max_loss(self) -> float:
        """As in `Pld`."""
        found = [sum(times * pld.max_loss for pld, times in parts) for parts in self.choices]
        return max(found) if self.worst else min(found)

    def cgf(self, c: Floats) -> tuple[Floats, Floats]:
        """As in `Pld`."""
        totals = np.array([CgfTable.of(parts, c).k for parts in self.choices])  # rounded up
        return (totals.max(axis=0) if self.worst else totals.min(axis=0)), np.zeros(len(c))


@dataclass(frozen=True, slots=True)
class ZcdpCgfBound(CgfBound):
    """K(c) ≤ ρ·c(c + 1) for every c > 0, which is ρ-zCDP."""

    rho: Fraction

    @property
    def max_loss(self) -> float:
        """As in `Pld`."""
        return inf

    def cgf(self, c: Floats) -> tuple[Floats, Floats]:
        """As in `Pld`."""
        value = nearest_float(self.rho) * c * (c + 1)
        return value, 4 * EPS * value


# The contour: what it proves.


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
    reach: float  # beyond it the parts are known by their envelope only
    envelope: float  # their product there, over its value at s = 0
    smoothing: float  # μ² of the Gaussian that is composed, or 0
    log_cutoff: float  # ln of the size below which a node is dropped
    cgf_table: CgfTable
    max_loss: float  # no finite loss is above this

    def bound_delta(self, epsilon: float, infinity_mass: Interval = (0.0, 0.0)) -> Interval:
        """δ at ε, with this mass at infinity, between two doubles."""
        low, high = 0.0, 1.0
        if self.smoothing * self.c * (self.c + 1) <= _MAX_SMOOTHING:
            low, high = self._bound_smoothed_delta(epsilon, self.smoothing)
            if self.smoothing > 0:
                kappa = sqrt(2) * exp(-self.smoothing / 8) * (1 - 4 * EPS) - 1
                if kappa < 0.1:  # past μ² = 2.77 the lemma is silent, and just before it says next to nothing
                    low = 0.0
                else:
                    _, above = self._bound_smoothed_delta(epsilon, 2 * self.smoothing)
                    low = max(0.0, low - (above - low) / kappa * (1 + 8 * EPS))
        if infinity_mass[1] == 0:
            return low, high
        # `low` is a few units of its last place below what is proven, which covers the rounding of the sum.
        return low + infinity_mass[0] * (1 - 2**-52), (high + infinity_mass[1]) * (1 + 2**-52)

    def delta_and_slope(self, epsilon: float) -> tuple[float, float]:
        """δ of the smoothed total at ε and its derivative, without error bounds: for searching only."""
        if self.smoothing * self.c * (self.c + 1) > _MAX_SMOOTHING:
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

    def _bound_smoothed_delta(self, epsilon: float, smoothing: float) -> Interval:
        terms = self._terms(epsilon, smoothing)
        size = np.abs(terms)
        rough = 8 * EPS * (4 + self.s * abs(epsilon) + smoothing * (self.c + 1 + self.s) ** 2 + log1p(len(size)))
        # |x|·(e^slack − 1), written so that a huge slack meets the tiny |x| it belongs to before it overflows.
        wrong = size * np.expm1(np.minimum(self.slack, 1))
        if (self.slack >= 1).any():
            wrong = np.where(self.slack < 1, wrong, self._bound_terms(smoothing))
        # Σ over nodes s > reach of e^{-smoothing·s²/2}/s² is at most e^{-smoothing·reach²/2}/(step·reach).
        beyond = exp(-smoothing * self.reach * self.reach / 2) / (self.step * self.reach) * (1 + 8 * EPS)
        rest = (self.tail + beyond * self.envelope) * exp(min(700.0, smoothing / 2 * self.c * (self.c + 1)))
        error, total = float((size * rough + wrong).sum()) + rest, float(terms.real.sum())
        scale = self.base - self.c * epsilon
        slip = self.base_error + 4 * EPS * (abs(self.base) + self.c * abs(epsilon))
        if not (isfinite(total) and isfinite(error) and isfinite(scale + slip)):
            return 0.0, 1.0  # some double overflowed on the way: nothing is known
        most = self.step / pi * (total + error) * (1 + 8 * EPS)
        least = self.step / pi * (total - error) * (1 - 8 * EPS)
        high = exp(min(0.0, scale + slip + log(most))) * (1 + 8 * EPS) + 5e-324 if most > 0 else 5e-324
        low = exp(min(0.0, scale - slip + log(least))) * (1 - 8 * EPS) if least > 0 else 0.0
        return max(0.0, low - self._bound_aliases(epsilon, smoothing)), min(1.0, high)

    def _bound_terms(self, smoothing: float) -> Floats:
        """A bound on the size of each true term."""
        lift = smoothing / 2 * (self.c * (self.c + 1) - self.s**2)
        with np.errstate(all="ignore"):  # where c² + s² is next to 0, of that is nothing known
            return np.asarray(np.exp(np.minimum(self.logs.real + self.slack + lift, 700.0)) / (self.c**2 + self.s**2))

    def _bound_aliases(self, epsilon: float, smoothing: float) -> float:
        """Σ_{j≠0} e^{cjT}·δ(ε + jT), by Chernoff's bound at a t below c for j < 0 and at one above for j > 0."""
        period = 2 * pi / self.step * (1 - 4 * EPS)
        t = self.cgf_table.c
        logs = self.cgf_table.chernoff(epsilon) + smoothing / 2 * t * (t + 1) * (1 + 8 * EPS)
        gap = np.abs(self.c - t) * period
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            sums = np.exp(np.minimum(logs - gap - np.log(-np.expm1(-gap)), 700.0))
        left = min(np.min(sums[t < self.c], initial=inf), exp(-self.c * period) / -expm1(-self.c * period))
        right = float(np.min(sums[t > self.c], initial=inf))
        past = (
            epsilon + period - self.max_loss
        )  # above the largest loss there is only the tail of the smoothing, K(t) ≤ t·max_loss
        if past > 0 and smoothing == 0:
            right = 0.0
        elif past > 0 and past / smoothing > 2 * self.c:
            t_past = past / smoothing
            power = self.c * period + smoothing / 2 * t_past * (t_past + 1) - t_past * past
            tail = exp(min(700.0, power + 1e-12 * t_past * past)) / -expm1(-(t_past - self.c) * period)
            right = min(right, tail)
        return float(left + right) * (1 + 64 * EPS)


# Filling a contour with the values of the distributions at its nodes.


def round_step(step: float) -> float:
    """`step` rounded down to 24 bits, so that its multiples by integers below 2^29 are exact doubles."""
    mantissa, exponent = frexp(step)
    return ldexp(int(mantissa * (1 << 24)), exponent - 24)


def build_contour(
    parts: Parts, cgf_table: CgfTable, c: float, step: float, count: int, smoothing: float, log_cutoff: float
) -> Contour:
    """A contour with nodes n·step, n < count, for these parts."""
    s, reach = step * np.arange(float(count)), step * (count - 1)
    zeros = np.zeros(count)
    contour = Contour(
        c, step, s, zeros.astype(complex), zeros, 0.0, 0.0, 0.0, reach, 1.0, smoothing, log_cutoff, cgf_table, 0.0
    )
    if count >= 1024:
        contour = drop_nodes_early(contour, parts)
    return extend_contour(contour, parts, cgf_table)


def extend_contour(contour: Contour, parts: Parts, cgf_table: CgfTable) -> Contour:
    """The contour of what it had and `parts` together; `cgf_table` is K of all of it."""
    reals = [pld.cgf(np.array([contour.c])) for pld, _ in parts]
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
        envelope=contour.envelope
        * total_decay_bound(parts, contour.c, contour.reach, contour.log_cutoff + log(contour.step * contour.reach))
        * excess,
        cgf_table=cgf_table,
        max_loss=contour.max_loss + total_max_loss(parts),
    )


def _extend_block(contour: Contour, parts: Parts, bases: list[float], nodes: slice) -> Contour:
    """Some of the nodes with all parts multiplied in; `tail` is what was dropped among them."""
    block = replace(contour, s=contour.s[nodes], logs=contour.logs[nodes], slack=contour.slack[nodes], tail=0.0)
    logs, slack = block.logs, block.slack
    for i, ((pld, times), base) in enumerate(zip(parts, bases, strict=True)):
        ratio = pld.mgf_ratio(contour.c, base, block.s)
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
    """Without the nodes whose terms stay below e^`log_cutoff`, given bounds on ln|Π M/M(c)| there."""
    bound = size - contour.smoothing / 2 * contour.s * contour.s - 2 * np.log(np.maximum(contour.s, contour.c))
    keep = (bound > min(contour.log_cutoff, 600.0)) | (contour.s == 0)  # e^600 is already no bound at all
    if keep.all():
        return contour
    lost = float(np.exp(np.minimum(bound[~keep], 700.0)).sum()) * (1 + 1e-9)
    return replace(contour, s=contour.s[keep], logs=contour.logs[keep], slack=contour.slack[keep], tail=contour.tail + lost)


def drop_nodes_early(contour: Contour, parts: Parts) -> Contour:
    """Drop, by cheap bounds on |M| alone, most of the nodes that many parts together make small."""
    near = contour.s[:256]
    total, size = (
        replace(contour, s=contour.s[256:], logs=contour.logs[256:], slack=contour.slack[256:]),
        np.zeros(len(contour.s) - 256),
    )
    for i, (pld, times) in enumerate(parts):
        size = size + float(times) * pld.modulus_bounds(contour.c, total.s)
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


# Where to put the contour: its saddle point c, its step and its length, for one direction of one composition.


@dataclass(frozen=True, slots=True)
class SaddlePoint:
    """A choice of c for one ε, and roughly what ln δ is there."""

    c: float
    epsilon: float
    log_delta: float
    cgf_table: CgfTable
    max_loss: float


def find_saddle_point(parts: Parts, cgf_table: CgfTable, epsilon: float) -> SaddlePoint:
    """The saddle point of e^{K(c) − cε}/(c(c + 1)), to a few per cent."""
    around = CgfTable.of(parts, float(cgf_table.c[np.argmin(_log_height(cgf_table, epsilon))]) * _NEAR)
    every = np.concatenate([cgf_table.c, around.c])
    order = np.argsort(every, kind="stable")
    table = CgfTable(every[order], np.concatenate([cgf_table.k, around.k])[order])
    return _place_saddle_point(table, epsilon, total_max_loss(parts))


def _place_saddle_point(table: CgfTable, epsilon: float, max_loss: float) -> SaddlePoint:
    """The best c of a table."""
    height = _log_height(table, epsilon)
    best = int(np.argmin(height))
    return SaddlePoint(float(table.c[best]), epsilon, float(height[best]) - log(_spread(table, best)), table, max_loss)


def _log_height(cgf_table: CgfTable, epsilon: float) -> Floats:
    """K − cε − ln(c(c + 1)), and ∞ where it is not a number."""
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


def find_saddle_point_for_delta(parts: Parts, cgf_table: CgfTable, delta: float) -> SaddlePoint:
    """The saddle point for the ε of this δ: by Chernoff's bound, which is a little too large, then by the saddle's
    height, as ln δ falls by about c per unit of ε."""
    epsilon = cgf_table.chernoff_epsilon(delta)
    saddle = find_saddle_point(parts, cgf_table, epsilon if isfinite(epsilon) else 1.0)
    first = saddle
    for _ in range(4):
        nearer = saddle.epsilon + (saddle.log_delta - log(delta)) / saddle.c
        closest = max(first.epsilon - 20 / first.c, min(nearer, first.epsilon), 0.0)
        saddle = _place_saddle_point(first.cgf_table, closest, first.max_loss)
        if not isfinite(saddle.log_delta):
            return replace(first, epsilon=closest, log_delta=log(delta))
    return replace(saddle, log_delta=log(delta))


def fit_contour(parts: Parts, saddle: SaddlePoint, tolerance: float, log_delta: float, stretch: float = 1.0) -> Contour:
    """A contour through this saddle point that should give δ to a relative `tolerance`, if ln δ is about `log_delta`.

    `stretch` > 1 makes the period longer than needed, for totals that will grow.
    """
    aim = log_delta + log(tolerance) - 4
    saddle = _shorten_period(saddle, aim)
    c = saddle.c
    step = round_step(2 * pi / (stretch * _choose_period(saddle, aim)))
    first, last = (int(np.searchsorted(saddle.cgf_table.c, c, side)) for side in ("left", "right"))
    base = float(saddle.cgf_table.k[first:last].min())  # K at c may stand there twice, once as ∞ where its list was too long
    small = aim - (base - c * saddle.epsilon) - log(step / pi)  # ln of what Σ terms may be wrong by
    if total_decay_bound(parts, c, step * 4095, log(1e-8)) < 1e-8:  # else even 4096 nodes have no decay to show
        few = parts[:: len(parts) // _MANY_PARTS + 1]  # what they suggest saves time, and proves nothing
        for count in (64, 128, 256, 512, 1024, 2048, 4096):
            enough, reach = min(0.0, small) + log(step**2 * count), step * (count - 1)
            if len(few) < len(parts) and total_decay_bound(few, c, reach, 0.0) > exp(0.9 * enough * len(few) / len(parts)):
                continue
            if total_decay_bound(parts, c, reach, enough) <= exp(enough):
                return build_contour(parts, saddle.cgf_table, c, step, count, 0.0, small - log(count))
    smoothing = 0.4 * tolerance / (c * (c + 1))
    depth = max(8.0, -small)
    count = min(_MAX_NODES, ceil(sqrt(2 * depth / smoothing) / step) + 2)
    smoothing = max(smoothing, 2 * depth / (step * (count - 1)) ** 2)
    return build_contour(parts, saddle.cgf_table, c, step, count, smoothing, small - log(count))


def _shorten_period(saddle: SaddlePoint, aim: float) -> SaddlePoint:
    """A c near the saddle point whose period is much shorter, if there is one: a few times the height costs a digit of some
    twelve, while a heavy tail of the loss, just above the saddle point, can make the period many times as long."""
    height = _log_height(saddle.cgf_table, saddle.epsilon)
    near = saddle.cgf_table.c[height <= height.min() + _MAX_CLIMB]
    period = _choose_period(saddle, aim)
    best = min((replace(saddle, c=float(c)) for c in near), key=lambda one: _choose_period(one, aim), default=saddle)
    return best if _choose_period(best, aim) < 0.7 * period else saddle


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


# δ at ε, and ε at δ.


def bound_delta_by_contour(parts: Parts, epsilon: float, rtol: float) -> Interval:
    """The finite part of δ(ε)."""
    if epsilon >= total_max_loss(parts):
        return 0.0, 0.0
    saddle = find_saddle_point(parts, coarse_table(tuple(parts)), epsilon)
    if not isfinite(saddle.log_delta):  # K is out of reach at every c
        return 0.0, 1.0
    log_delta, low, high = saddle.log_delta, 0.0, 1.0
    tolerance = rtol
    for _ in range(_MAX_TRIES):
        contour = fit_contour(parts, saddle, tolerance, log_delta)
        found = contour.bound_delta(epsilon)
        low, high = max(low, found[0]), min(high, found[1])
        if (low, high) == (0.0, 1.0) and tolerance < 1e-2:  # out of reach: less will have to do
            tolerance = min(0.1, 256 * tolerance)
            continue
        if high - low <= rtol * high or high < 1e-305 or _has_all_nodes(contour) or tolerance > rtol:
            break
        tolerance, log_delta = tolerance / 4, min(log_delta, log(max(low, high * 1e-3)))
    return low, high


def bound_epsilon_by_contour(parts: Parts, delta: float, rtol: float, infinity_mass: Interval) -> Interval:
    """The ε at which δ(ε), with this mass at infinity, is delta."""
    aim = delta - infinity_mass[1] if delta > infinity_mass[1] else (delta - infinity_mass[0])
    table = coarse_table(tuple(parts))
    if not np.isfinite(table.k).any():  # K is out of reach at every c
        return 0.0, total_max_loss(parts)
    saddle = find_saddle_point_for_delta(parts, table, aim)
    if len(parts) > _MANY_PARTS:
        saddle = _move_by_sample(parts, saddle, aim)
    low, high, share = 0.0, saddle.max_loss, (0.3 if rtol > 1e-5 else 1.0)  # a coarse answer is to be had in one try
    if delta > infinity_mass[1]:  # Chernoff's bound holds in any case
        chernoff = saddle.cgf_table.chernoff_epsilon((delta - infinity_mass[1]) * (1 - 2**-50))
        high = min(high, chernoff * (1 + 2**-50))
    start = saddle.epsilon
    if start >= saddle.max_loss * (1 - 64 * rtol):  # as good as pure: is δ still above delta just below the largest loss?
        low = _settle_below_max_loss(parts, saddle, delta, infinity_mass, rtol)
        if high - low <= rtol * high:
            return low, high
    for attempt in range(_MAX_TRIES):
        tolerance = share * min(0.1, rtol * max(1e-3, saddle.c * saddle.epsilon))
        contour = fit_contour(parts, saddle, tolerance, log(aim))
        guess = solve_newton(contour, aim, saddle.epsilon)
        if attempt == 0 and abs(guess - saddle.epsilon) * saddle.c > 0.5:  # the saddle has moved: put the contour there
            saddle = find_saddle_point(parts, saddle.cgf_table, guess)
            contour = fit_contour(parts, saddle, share * min(0.1, rtol * max(1e-3, saddle.c * guess)), log(aim))
            guess = solve_newton(contour, aim, guess)
        found = _invert(contour, infinity_mass, delta, guess, rtol)
        if found == (0.0, inf) and isfinite(high):  # Newton went astray, perhaps: where does the same contour cross delta?
            found = _invert(contour, infinity_mass, delta, _find_crossing(contour, infinity_mass, delta, high), rtol)
        low, high = max(low, found[0]), min(high, found[1])
        if found == (0.0, inf) and attempt < 2:  # out of reach: less will have to do
            share *= 256
            continue
        if high - low <= rtol * high or found == (0.0, inf) or share > 1 or _has_all_nodes(contour):
            break
        share /= 16
    return (low, high) if low > 0 else (_find_lower_epsilon(parts, saddle, delta, infinity_mass, min(high, start)), high)


def _move_by_sample(parts: Parts, saddle: SaddlePoint, delta: float) -> SaddlePoint:
    """The saddle point where a few of many parts, as many times as stand for all, would have this δ: a place to begin that
    spares the many a second contour. It proves nothing."""
    every = len(parts) // _MANY_PARTS + 1
    few = [(pld, times * every) for pld, times in parts[every // 2 :: every]]
    guess = solve_newton(fit_contour(few, saddle, _ROUGHLY, log(delta)), delta, saddle.epsilon)
    return _place_saddle_point(saddle.cgf_table, guess, saddle.max_loss) if 0 < guess < saddle.max_loss else saddle


def _invert(contour: Contour, infinity_mass: Interval, delta: float, guess: float, rtol: float) -> Interval:
    mantissa, exponent = frexp(guess)
    # The same point for a δ that was rounded the other way.
    near = ldexp(round(mantissa * (1 << 40)), exponent - 40) if isfinite(guess) else guess
    return invert_falling(lambda epsilon: contour.bound_delta(epsilon, infinity_mass), delta, near, rtol / 8, tries=16)


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


def _find_crossing(contour: Contour, infinity_mass: Interval, delta: float, high: float) -> float:
    """Where the middle of the contour's bounds meets delta, by bisection from 0 to `high`."""
    low = 0.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(contour.bound_delta(middle, infinity_mass)) / 2 > delta else (low, middle)
    return high


def _has_all_nodes(contour: Contour) -> bool:
    """Whether the contour has all the nodes it may have: a finer one would only be the same again."""
    return contour.reach / contour.step > _MAX_NODES - 2


def _find_lower_epsilon(parts: Parts, saddle: SaddlePoint, delta: float, infinity_mass: Interval, high: float) -> float:
    """An ε where δ is certainly above delta, some way below `high`, where nothing near it could be settled."""
    for share in (1e-5, 1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.5):
        there = find_saddle_point(parts, saddle.cgf_table, (1 - share) * high)
        found = fit_contour(parts, there, 0.1, there.log_delta).bound_delta(there.epsilon, infinity_mass)
        if found[0] > delta:
            return there.epsilon
    return 0.0


def _settle_below_max_loss(parts: Parts, saddle: SaddlePoint, delta: float, infinity_mass: Interval, rtol: float) -> float:
    """The largest loss less a part in 1/rtol, if δ there is certainly above delta; else 0."""
    epsilon = saddle.max_loss * (1 - 0.9 * rtol)
    there = find_saddle_point(parts, saddle.cgf_table, epsilon)
    found = fit_contour(parts, there, 0.1, there.log_delta).bound_delta(epsilon, infinity_mass)
    return epsilon if found[0] > delta else 0.0


def rough_epsilon(parts: Parts, delta: float) -> float:
    """An upper bound on ε at δ that costs no contour: Chernoff's on the coarse table, or the largest loss."""
    return min(total_max_loss(parts), coarse_table(tuple(parts)).chernoff_epsilon(delta))


def rough_delta(parts: Parts, epsilon: float) -> float:
    """An upper bound on δ at ε that costs no contour."""
    if epsilon >= total_max_loss(parts):
        return 0.0
    return exp(min(0.0, float(np.min(coarse_table(tuple(parts)).chernoff(epsilon))))) * (1 + 2**-48)


def chernoff_delta(parts: Parts, epsilon: float) -> float:
    """min over c of B(c)·e^{K(c) − cε} on a fine table: all that a bound on K can say about δ."""
    saddle = find_saddle_point(parts, coarse_table(tuple(parts)), epsilon)
    return min(1.0, exp(min(0.0, float(np.min(saddle.cgf_table.chernoff(epsilon))))) * (1 + 2**-48))


def chernoff_epsilon(parts: Parts, delta: float) -> float:
    """The least ε whose Chernoff bound is at most delta, over a table refined twice."""
    table = coarse_table(tuple(parts))
    for width in (1.0, 1 / 8):
        table = CgfTable.of(parts, table.best_c(delta) * _NEAR**width)
    return table.chernoff_epsilon(delta)
