"""Dividing a budget over levels and margins of a spine, so that the weighted sum of all variances is least.

**Theory of operation.** a[l, A] ≥ 0 is the precision of the table of margin A on level l; all of them together are 1, the
whole budget. The residual b of level l is then known with precision τ[l, b] = Σ_A averaging[b, A]·a[l, A], and two passes
(`tabulation/two_pass.py`) estimate it on every node with a variance V. `allocate_levels` minimises

    F(a) = Σ_l Σ_b weights[l, b] · Σ_{nodes v of level l} V[v, b].

Whether a level weighs as much as another, or a node, or a person, is what the caller's weights say.

The variances of the nodes of one shape are added up from above. With r = 1/π, h = 1/S, n_s nodes of shape s, each of which
has m_sc = `children[s, c]` children of shape c: Σ V_c = Σ_s m_sc·(n_s·(r_c − r_c²h_s) + r_c²h_s²·Σ V_s). The gradient is the
adjoint of the two recursions, r from below and Σ V from above; B_s = weight + h_s²·Σ_c m_sc·B_c·r_c² is how much F grows
with the variance of one node of shape s. All of it is products with the sparse matrices of `Shapes`, for all residuals.

**Proof** that `lower_bound` is below every F. V is a diagonal entry of the inverse of an information matrix that is linear
in a, so F is convex, and F(t·a) = F(a)/t. Let g = −∇F(a); then Σ a·g = F(a) (Euler). For every a' ≥ 0 with Σ a' = 1 and
every t > 0, convexity gives F(a')/t = F(t·a') ≥ F(a) − g·(t·a' − a) = 2F(a) − t·g·a' ≥ 2F(a) − t·max g. The right side,
times t, is largest at t = F(a)/max g: **F(a') ≥ F(a)²/max g**. (At t = 1 the bound is F·(2 − max g/F), never larger.) At
the optimum max g = F, so the bound is attained. ∎

The iteration a ← a·(g/F)^η, scaled to add up to 1, starts with η = ½ and takes a larger η as long as F falls.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import BadParameter
from discreet.tabulation.shapes import Shapes

Floats: TypeAlias = NDArray[np.float64]
LEAST_PRECISION = 1e-30
"""Stands for a precision of 0, so that its inverse and the square of that are numbers."""
NEGLIGIBLE_SHARES = (1e-3, 1e-4, 1e-5, 1e-6, 1e-8, 1e-10)
MAX_POWER = 2.0


@dataclass(frozen=True, eq=False)
class LevelAllocation:
    """The precisions of all tables, one row per level and one column per margin, adding up to 1.

    No allocation has an objective below `lower_bound`, up to the rounding of doubles.
    """

    precisions: Floats
    objective: float
    lower_bound: float
    iterations: int

    @property
    def gap(self) -> float:
        """By which share of the lower bound the objective may be too large."""
        return self.objective / self.lower_bound - 1


def allocate_levels(
    shapes: Shapes,
    averaging: Any,
    weights: ArrayLike,
    *,
    allowed: ArrayLike | None = None,
    gap: float = 1e-5,
    max_iterations: int = 20_000,
) -> LevelAllocation:
    """Divide a budget of 1 over levels and margins.

    `averaging` has one row per residual and one column per margin: the factor by which the precision of a table counts for
    a residual, 0 where the table does not contain it. `weights` has one row per level and one column per residual: the
    weight of the variance of one node. `allowed` says which margins may be measured on which levels, all by default.

    A total on two levels, where one top node weighs as much as its four children together:

    >>> from discreet.tabulation.spine import Spine
    >>> spine = Spine.from_codes(["1", "2", "3", "4"], [0, 1])
    >>> found = allocate_levels(spine.shapes, [[1.0]], [[1.0], [0.25]])
    >>> found.precisions.round(3).ravel().tolist(), round(found.objective, 3)
    ([0.438, 0.562], 3.171)
    """
    problem = _Problem.read(shapes, averaging, weights, allowed)
    a = problem.allowed / problem.allowed.sum()
    objective, gradient = problem.evaluate(a)
    bound = objective**2 / float(gradient.max())
    power, iterations = 0.5, 0
    while objective > bound * (1 + gap) and iterations < max_iterations:
        iterations += 1
        trial = a * (gradient / objective) ** power
        trial /= trial.sum()
        found, slope = problem.evaluate(trial)
        if found > objective and power > 0.5:
            power = max(power / 2, 0.5)
            continue
        power = min(power * 1.1, MAX_POWER)
        a, objective, gradient = trial, found, slope
        bound = max(bound, objective**2 / float(gradient.max()))
    a, objective = _drop_negligible(problem, a, objective, max(bound * (1 + gap), objective))
    return LevelAllocation(a, objective, min(bound, objective), iterations)


def total_variance(shapes: Shapes, averaging: Any, weights: ArrayLike, precisions: ArrayLike) -> float:
    """Return the objective of given precisions, one row per level and one column per margin; they need not add up to 1."""
    given = np.asarray(precisions, float)
    return _Problem.read(shapes, averaging, weights, given > 0).evaluate(given)[0]


def _drop_negligible(problem: "_Problem", a: Floats, objective: float, limit: float) -> tuple[Floats, float]:
    """Leave out as many small tables as the objective tolerates: fewer measurements that say nothing."""
    for share in NEGLIGIBLE_SHARES:
        trial = np.where(a < share, 0, a)
        trial /= trial.sum()
        if (found := problem.evaluate(trial)[0]) <= limit:
            return trial, found
    return a, objective


@dataclass(frozen=True, eq=False)
class _Problem:
    """An allocation problem, checked. `groups` are residuals with the same deepest level that can be measured."""

    shapes: Shapes
    averaging: Floats
    allowed: NDArray[np.bool_]
    groups: list[tuple[int, NDArray[np.int64], Floats]]

    @staticmethod
    def read(shapes: Shapes, averaging: Any, weights: ArrayLike, allowed: ArrayLike | None) -> "_Problem":
        factors = np.asarray(averaging.toarray() if hasattr(averaging, "toarray") else averaging, float)
        wanted = np.array(weights, float)
        levels = shapes.depth
        residuals, margins = factors.shape
        may = np.ones((levels, margins), bool) if allowed is None else np.asarray(allowed, bool)
        for name, given, size in (("weights", wanted, (levels, residuals)), ("allowed", may, (levels, margins))):
            if given.shape != size:
                raise BadParameter(name, f"of shape {given.shape}", f"it must be {size}", "give one row per level")
        if not (np.all(np.isfinite(wanted)) and np.all(wanted >= 0) and np.any(wanted > 0)):
            raise BadParameter("weights", "not finite numbers from 0 up", "one must be above 0", "weigh what is published")
        deepest = _find_deepest(may @ (factors > 0).T)
        sizes = [int(each.sum()) for each in shapes.counts]
        _fold_only_children(wanted, deepest, sizes)
        groups = []
        for depth in sorted(set(deepest[wanted.any(axis=0)].tolist())):
            chosen = np.flatnonzero((deepest == depth) & wanted.any(axis=0))
            groups.append((depth, chosen, wanted[: depth + 1, chosen]))
        return _Problem(shapes, factors, may, groups)

    def evaluate(self, a: Floats) -> tuple[float, Floats]:
        """Return F and -∇F, which is 0 for tables that are not allowed."""
        tau = np.maximum(a @ self.averaging.T, LEAST_PRECISION)
        slopes = np.zeros(tau.shape)
        total = 0.0
        for depth, chosen, weights in self.groups:
            found, slope = _sum_variances(self.shapes, tau[: depth + 1, chosen], weights)
            total += found
            slopes[: depth + 1, chosen] = slope
        return total, np.where(self.allowed, slopes @ self.averaging, 0)


def _find_deepest(measurable: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The deepest level on which each residual can be measured; -1 if on none."""
    levels = np.arange(len(measurable))[:, None]
    return np.asarray(np.where(measurable, levels, -1).max(axis=0), np.int64)


def _fold_only_children(weights: Floats, deepest: NDArray[np.int64], sizes: Sequence[int]) -> None:
    """Count what is wanted below the deepest level for that level, if all nodes there are only children; else refuse it."""
    for level, residual in zip(*np.nonzero(weights), strict=True):
        depth = deepest[residual]
        if level <= depth:
            continue
        if depth < 0 or sizes[level] > sizes[depth]:
            raise BadParameter(
                "allowed",
                f"no table with residual {residual} on level {level} or below",
                "its weight there is above 0, and it cannot be estimated",
                "allow a table that contains it on that level, or give it no weight there",
            )
        weights[depth, residual] += weights[level, residual]
        weights[level, residual] = 0


def _sum_variances(shapes: Shapes, tau: Floats, weights: Floats) -> tuple[float, Floats]:
    """F of some residuals, with -∂F/∂τ. Rows are levels, columns are residuals."""
    last = len(tau) - 1
    r: list[Floats] = [1 / np.repeat(tau[last][None], len(shapes.counts[last]), axis=0)]
    h: list[Floats] = []
    br2: list[Floats] = []
    b: list[Floats] = [np.repeat(weights[last][None], len(shapes.counts[last]), axis=0)]
    for level in range(last - 1, -1, -1):  # from below
        children = shapes.children[level]
        br2.insert(0, children @ (b[0] * r[0] ** 2))
        h.insert(0, 1 / (children @ r[0]))
        r.insert(0, 1 / (tau[level] + h[0]))
        b.insert(0, weights[level] + h[0] ** 2 * br2[0])
    many = [each[:, None].astype(float) for each in shapes.counts]
    variance = many[0] * r[0]  # Σ V of the nodes of each shape
    slope_r = many[0] * b[0]
    objective = float((weights[0] * variance).sum())
    slopes = np.zeros(tau.shape)
    for level in range(last + 1):  # from above
        slope_pi = r[level] ** 2 * slope_r
        slopes[level] = slope_pi.sum(axis=0)
        if level == last:
            break
        above = shapes.transposed[level]
        slope_h = (2 * variance * h[level] - many[level]) * br2[level] - slope_pi
        lent, kept = above @ (many[level] * h[level]), above @ (variance * h[level] ** 2)
        below = r[level + 1]
        slope_r = b[level + 1] * (many[level + 1] + 2 * below * (kept - lent)) - above @ (h[level] ** 2 * slope_h)
        variance = below * (many[level + 1] - below * lent) + below**2 * kept
        objective += float((weights[level + 1] * variance).sum())
    return objective, slopes
