"""The least budget at which every cell of every level has at most a given variance.

**Theory of operation.** As in `level_allocation`, a[l, A] ≥ 0 is the precision of the table of margin A on level l. A
*limit* says that each cell of a table has at most a variance v on every node of a level: Σ_b share[b]·V[node, b] ≤ v, where
V is the variance of residual b after two passes. Nodes with equal shapes on the way from the top have equal V (`Paths`), so
a limit is one condition for each such group. `allocate_for_level_errors` looks for the least Σ a.

V is convex in a, and inversely proportional to a scaling of a. So shares with sum 1 are enough: the factor by which they
must grow is the largest ratio of a variance to its limit.

**Proof** that Σ a ≥ f(x)²/max g for every a that keeps all limits, every x ≥ 0 with sum 1 and all multipliers μ ≥ 0 with
sum 1, where f = Σ μ·(variance/limit), and g = −∇f(x). Let S = Σ a and a' = a/S. All ratios of a are at most 1, so f(a) ≤ 1,
and f(a') = S·f(a) ≤ S. No a' with sum 1 has f(a') < f(x)²/max g, as `level_allocation` proves for every weighted sum of
variances. ∎ So what the iteration returns carries its own bound, as in `allocation`, and it may be any iteration. This one
multiplies: x ← x·√(g/f), and μ ← μ·ratio, both scaled to add up to 1.

Variances and their gradient, with r = 1/π and h = 1/S of a shape: a group p whose parent's group is q has V_p = r_p·(1 −
r_p·h_q) + (r_p·h_q)²·V_q, from the top down; B_p = weight + Σ_children (r_c·h_p)²·B_c is how much f grows with V_p.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from discreet.tabulation.level_allocation import LEAST_PRECISION, NEGLIGIBLE_SHARES, LevelAllocation
from discreet.tabulation.margins import Floats
from discreet.tabulation.shapes import Paths, Shapes

MAX_ITERATIONS, MIN_ITERATIONS, MAX_WORK = 4000, 200, 2_000_000_000
"""Fewer iterations on large trees: so many numbers in all."""


@dataclass(frozen=True, eq=False)
class LevelLimit:
    """A limit on the variance of the cells of a table, on every node of a level."""

    level: int
    shares: Floats  # of each residual in the variance of a cell
    variance: float


def allocate_for_level_errors(
    shapes: Shapes, paths: Paths, averaging: Any, limits: Sequence[LevelLimit], *, gap: float = 1e-4
) -> LevelAllocation:
    """Return the precisions with the least sum at which all limits hold. The objective is the sum.

    `averaging` is as in `allocate_levels`. The iteration ends at the gap, or after a number of steps: the gap of what it
    returns is certified in either case.

    A total on two levels, with the same limit for the top node and its four children:

    >>> from discreet.tabulation.spine import Spine
    >>> spine = Spine.from_codes(["1", "2", "3", "4"], [0, 1])
    >>> one = np.ones(1)
    >>> found = allocate_for_level_errors(
    ...     spine.shapes, spine.paths, np.eye(1), [LevelLimit(0, one, 1.0), LevelLimit(1, one, 1.0)]
    ... )
    >>> found.precisions.round(2).ravel().tolist(), round(found.objective, 2)
    ([0.8, 0.8], 1.6)
    """
    factors = np.asarray(averaging.toarray() if hasattr(averaging, "toarray") else averaging, float)
    problem = _Problem(shapes, paths, factors, tuple(limits))
    x = np.ones((shapes.depth, factors.shape[1]))
    x /= x.sum()
    multipliers = problem.start()
    best, total, bound, iterations = x, float("inf"), 0.0, 0
    while iterations < problem.count_iterations():
        iterations += 1
        variances = problem.find_variances(x)
        ratios = problem.list_ratios(variances)
        largest = max(float(each.max()) for each in ratios)
        if largest < total:
            best, total = x, largest
        objective, gradient = problem.weigh(variances, multipliers, ratios)
        bound = max(bound, objective**2 / float(gradient.max()))
        if total <= bound * (1 + gap):
            break
        x = x * np.sqrt(gradient / objective)
        x /= x.sum()
        multipliers = [each * (ratio / largest) for each, ratio in zip(multipliers, ratios, strict=True)]
        whole = sum(float(each.sum()) for each in multipliers)
        multipliers = [each / whole for each in multipliers]
    kept, total = _drop_negligible(problem, best, total, max(total, bound * (1 + gap)))
    return LevelAllocation(kept * total, total, min(bound, total), iterations)


def _drop_negligible(problem: "_Problem", x: Floats, total: float, limit: float) -> tuple[Floats, float]:
    """Leave out as many small tables as the limits tolerate."""
    for share in NEGLIGIBLE_SHARES:
        trial = np.where(x < share, 0, x)
        trial /= trial.sum()
        if problem.can_estimate(trial) and (found := problem.evaluate(trial)) <= limit:
            return trial, found
    return x, total


@dataclass(frozen=True)
class _Variances:
    """V of each group by level, with r and h of each shape."""

    r: list[Floats]
    h: list[Floats]
    of_group: list[Floats]


@dataclass(frozen=True, eq=False)
class _Problem:
    shapes: Shapes
    paths: Paths
    averaging: Floats
    limits: tuple[LevelLimit, ...]

    def start(self) -> list[Floats]:
        """Equal multipliers for all limits, and for all groups of one limit."""
        sizes = [len(self.paths.shapes[each.level]) for each in self.limits]
        return [np.full(size, 1 / (len(sizes) * size)) for size in sizes]

    def count_iterations(self) -> int:
        work = sum(map(len, self.paths.shapes)) * len(self.averaging)
        return int(min(MAX_ITERATIONS, max(MIN_ITERATIONS, MAX_WORK // (20 * work))))

    def can_estimate(self, x: Floats) -> bool:
        """Return whether every residual of a limit is measured on its level or below. `find_variances` takes what is not
        measured for measured very badly, and a limit that is wide beside the others may tolerate that."""
        tau = x @ self.averaging.T
        return all(tau[each.level :, each.shares > 0].sum(axis=0).all() for each in self.limits)

    def evaluate(self, x: Floats) -> float:
        """Return the factor by which precisions must grow, so that all limits hold."""
        return max(float(each.max()) for each in self.list_ratios(self.find_variances(x)))

    def find_variances(self, x: Floats) -> _Variances:
        """Two passes: r and h from below, V from above."""
        tau = np.maximum(x @ self.averaging.T, LEAST_PRECISION)
        last = self.shapes.depth - 1
        r: list[Floats] = [1 / np.repeat(tau[last][None], len(self.shapes.counts[last]), axis=0)]
        h: list[Floats] = []
        for level in range(last - 1, -1, -1):
            h.insert(0, 1 / (self.shapes.children[level] @ r[0]))
            r.insert(0, 1 / (tau[level] + h[0]))
        found = [r[0][self.paths.shapes[0]]]
        for level in range(1, last + 1):
            own, lent = self._pair(r, h, level)
            found.append(own * (1 - lent) + lent**2 * found[-1][self.paths.parents[level]])
        return _Variances(r, h, found)

    def _pair(self, r: list[Floats], h: list[Floats], level: int) -> tuple[Floats, Floats]:
        """r of each group of a level, and r·h with the parent's h."""
        own = r[level][self.paths.shapes[level]]
        above = h[level - 1][self.paths.shapes[level - 1]][self.paths.parents[level]]
        return own, own * above

    def list_ratios(self, variances: _Variances) -> list[Floats]:
        """Return the ratio of variance and limit, for every limit and group."""
        return [variances.of_group[each.level] @ (each.shares / each.variance) for each in self.limits]

    def weigh(self, variances: _Variances, multipliers: list[Floats], ratios: list[Floats]) -> tuple[float, Floats]:
        """Return f and −∇f."""
        r, h, of_group = variances.r, variances.h, variances.of_group
        last = self.shapes.depth - 1
        weights = [np.zeros(each.shape) for each in of_group]
        for limit, each in zip(self.limits, multipliers, strict=True):
            weights[limit.level] += each[:, None] * (limit.shares / limit.variance)
        objective = sum(float(each @ ratio) for each, ratio in zip(multipliers, ratios, strict=True))
        slope_r = [np.zeros(each.shape) for each in r]
        slope_h = [np.zeros(each.shape) for each in h]
        for level in range(last, 0, -1):
            own, lent = self._pair(r, h, level)
            parents = self.paths.parents[level]
            grown, above = weights[level], of_group[level - 1][parents]
            with np.errstate(invalid="ignore", over="ignore"):
                by_r = np.where(grown > 0, grown * (1 - 2 * lent + 2 * lent**2 * above / own), 0)
                by_h = np.where(grown > 0, grown * own * (2 * lent * above - own), 0)
            slope_r[level] += self._to_shapes[level] @ by_r
            slope_h[level - 1] += self._to_shapes[level - 1] @ (self._to_parents[level] @ by_h)
            weights[level - 1] += self._to_parents[level] @ (lent**2 * grown)
        slope_r[0] += self._to_shapes[0] @ weights[0]
        slopes = np.zeros((last + 1, len(self.averaging)))
        for level in range(last + 1):
            by_pi = r[level] ** 2 * slope_r[level]
            slopes[level] = by_pi.sum(axis=0)
            if level < last:
                by_h = slope_h[level] - by_pi
                slope_r[level + 1] += self.shapes.transposed[level] @ (-(h[level] ** 2) * by_h)
        return objective, np.maximum(slopes @ self.averaging, 0)

    @cached_property
    def _to_shapes(self) -> list[Any]:
        return [_adding(each, len(some)) for each, some in zip(self.paths.shapes, self.shapes.counts, strict=True)]

    @cached_property
    def _to_parents(self) -> list[Any]:
        sizes = [1, *(len(each) for each in self.paths.shapes)]
        return [_adding(each, size) for each, size in zip(self.paths.parents, sizes, strict=False)]


def _adding(places: Any, size: int) -> Any:
    """The sparse matrix that adds up rows by place."""
    from scipy.sparse import csr_array

    return csr_array((np.ones(len(places)), (places, np.arange(len(places)))), shape=(size, len(places)))
