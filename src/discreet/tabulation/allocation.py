"""How a budget is divided over tables: the noise of each table that makes the estimates of all wanted tables best together.

*The problem.* A table A may be measured with precision a_A = 1/variance. The precisions add up to the budget (Σ 1/σ² = 2ρ
for counts under add/remove of one row). With τ_b = Σ_{A⊇b} a_A/N_{A∖b} (see `residuals`), each cell of a wanted table B
gets

    Var_B(a) = Σ_{b⊆B} p_b/(N_{B∖b}² τ_b).

`allocate` minimises f(a) = Σ_B w_B N_B Var_B(a) = Σ_b q_b/τ_b over a ≥ 0, Σ a = 1; `allocate_for_errors` minimises Σ a such
that Var_B(a) ≤ v_B for given v. Tables that may be measured are all that lie in a wanted one. Both problems are convex.

*Contrasts of binary columns.* Under add/remove, the contrast of a table over binary columns has the sensitivity of the whole
table (`query/cells.py`), so that precisions of both are added up alike. With `contrasts`, one contrast may be measured for
each margin A, over all of its binary columns (`Lattice.contrasts`), in place of the table: as many unknowns, with fewer
cells.

**Proof** that no other choice of whole tables and contrasts is better. Let a contrast over c (none: the whole table) of A
have precision a, and let i be a binary column of A∖c. Measure instead, with precision a/2 each, the contrast of A over c∪{i}
and that of A∖{i} over c. A residual b with i has then (a/2)·2^(|c|+1)/N_{A∖b} from the first, and one without it has
(a/2)·2^|c|/N_{(A∖{i})∖b} = a·2^|c|/N_{A∖b} from the second: what the one contrast gave to each (`residuals`). So τ is the
same at the same budget, and repeating this for every binary column leaves contrasts over all binary columns alone. ∎ So the
bounds below hold for all of them; and if whole tables alone come as near to the bound as is asked for, they are what is
measured, because they are easier to read.

*The certificate.* Let g_A = −∂f/∂a_A = Σ_{b⊆A} q_b/(N_{A∖b} τ_b²).

**Proof** (weak duality) that no a' with Σ a' = 1 has f(a') < f(a)²/max g. By Cauchy–Schwarz, Σ_b q_b/τ'_b · Σ_b q_b
τ'_b/τ_b² ≥ (Σ_b q_b/τ_b)² = f(a)². The second factor is Σ_A a'_A g_A ≤ max g. ∎

**Proof** that Σ a ≥ f*(λ)/Σ_B λ_B v_B for every a with Var_B(a) ≤ v_B and every λ ≥ 0, where f*(λ) is the least value of
f_λ = Σ_B λ_B Var_B at budget 1. Let S = Σ a. Var is inversely proportional to a scaling of a, so f*(λ) ≤ f_λ(a/S) =
S·f_λ(a) ≤ S·Σ λ_B v_B. ∎ With the first bound in place of f*(λ), any λ and any a certify a lower bound.

So the iterations below need no proof: what they return carries its own bound, and a better iteration would change no claim.
They multiply: a_A ← a_A·√(g_A/f), which leaves exactly the optimum fixed, and likewise λ_B v_B ← λ_B v_B·Var_B/v_B,
normalised. Where that is slow, which is where many a_A are to vanish, Newton's method follows a logarithmic barrier.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf, isfinite, isqrt
from typing import Any, Protocol

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.sparse import csr_array

from discreet._numbers import Number, check_positive
from discreet.errors import BadParameter
from discreet.tabulation.intervals import sigma_for_variance
from discreet.tabulation.margins import Floats, Lattice, Margin, Measured

SLACK = 1e-12
"""More than the rounding of objectives, variances and bounds in doubles, relative: sums of positive numbers."""
MAX_MULTIPLICATIONS, MAX_SPARSE_MULTIPLICATIONS = 1500, 20_000
MAX_NEWTON_TABLES = 3000
"""Newton's method solves dense systems of so many equations at most; more tables are left to multiplication."""
MAX_NEWTON_STEPS = 200
ROOT_BITS = 30
"""1/σ is rounded down to so many bits: σ grows by less than 2^-29 of itself."""


@dataclass(frozen=True)
class Allocation:
    """Precisions 1/variance of the tables to measure; tables that are not listed are not measured.

    `objective` is what was minimised, and no allocation can have less than `lower_bound`.
    """

    precisions: dict[Measured, float]
    objective: float
    lower_bound: float
    iterations: int

    @property
    def gap(self) -> float:
        """How far the objective may be above the least, as a share of the least."""
        return self.objective / self.lower_bound - 1


def allocate(
    sizes: Sequence[int], weights: Mapping[Margin, float], *, contrasts: bool = False, gap: float = 1e-6
) -> Allocation:
    """Return the precisions, with sum 1, that minimise Σ weight · cells · variance of a cell over the wanted tables.

    The weight 1 counts every cell alike, 1/cells every table alike. Columns of one value are left out of the margins. With
    `contrasts`, contrasts of binary columns may be measured too: the precisions of those add up as those of whole tables do
    under add/remove, and not if a unit is replaced.

    >>> workload = {(): 1.0, (0,): 1.0, (1,): 1.0, (2,): 1.0}
    >>> best = allocate((2, 3, 4), workload)
    >>> round(best.objective, 3), best.gap <= 1e-6
    (23.296, True)
    >>> round(allocate((2, 3, 4), workload, contrasts=True).objective, 3)
    23.09
    """
    wanted = _check_positive_values("weights", weights, allow_zero=True)
    lattice = Lattice.of(sizes, wanted)
    charges = lattice.rebuilding.T @ (lattice.spread(wanted) * lattice.cells)
    scale = float(charges.sum())
    solved = _solve(lattice, lambda matrix: _Problem(matrix, charges / scale), contrasts, gap)
    return Allocation(
        _list_precisions(solved.candidates, solved.shares),
        solved.objective * scale * (1 + SLACK),
        solved.lower_bound * scale * (1 - SLACK),
        solved.steps,
    )


def allocate_for_errors(
    sizes: Sequence[int], variances: Mapping[Margin, float], *, contrasts: bool = False, gap: float = 1e-6
) -> Allocation:
    """Return the precisions with the least sum such that each cell of the wanted tables has at most the given variance.

    The objective is the sum. `contrasts` are those of `allocate`. `sigmas_for_errors` makes standard deviations of the
    precisions.

    >>> best = allocate_for_errors((2, 3), {(0,): 1.0, (1,): 4.0})
    >>> round(best.objective, 4), {margin: round(each, 3) for margin, each in best.precisions.items()}
    (1.1207, {(0,): 0.945, (1,): 0.176})
    """
    wanted = _check_positive_values("variances", variances, allow_zero=False)
    lattice = Lattice.of(sizes, wanted)
    limits = np.full(len(lattice.margins), inf)
    for margin, limit in wanted.items():
        place = lattice.index[lattice.drop(margin)]
        limits[place] = min(limits[place], limit)
    rows = np.flatnonzero(np.isfinite(limits))
    scale = float(limits[rows].min())
    rebuilding = csr_array(lattice.rebuilding[rows])
    solved = _solve(lattice, lambda matrix: _ErrorProblem(matrix, rebuilding, limits[rows] / scale), contrasts, gap)
    total = solved.objective / scale * (1 + SLACK)
    precisions = _list_precisions(solved.candidates, solved.shares * total)
    return Allocation(precisions, total, solved.lower_bound / scale * (1 - SLACK), solved.steps)


def round_sigmas(allocation: Allocation, budget: Number) -> dict[Measured, Fraction]:
    """Return standard deviations σ, rounded up, with Σ 1/σ² ≤ budget in exact arithmetic.

    1/σ is a multiple of a power of two, so that the sum of 1/σ² over any number of tables is a short rational.

    >>> sigmas = round_sigmas(allocate((2, 3), {(0,): 1.0, (1,): 1.0}), Fraction(1, 50))
    >>> sum(1 / sigma**2 for sigma in sigmas.values()) <= Fraction(1, 50)
    True
    """
    limit = check_positive(budget, "budget")
    ratios = {margin: each.as_integer_ratio() for margin, each in allocation.precisions.items()}
    common = max(bottom for _, bottom in ratios.values())  # all are powers of two
    parts = {margin: top * (common // bottom) for margin, (top, bottom) in ratios.items()}
    divisor = limit.denominator * sum(parts.values())
    return {margin: 1 / _root_down(limit.numerator * part, divisor) for margin, part in parts.items()}


def sigmas_for_errors(allocation: Allocation) -> dict[Measured, Fraction]:
    """Return standard deviations σ at which the integers that are drawn have at least the allocated precisions.

    Least squares over more precise tables is more precise, so the wanted variances hold.

    >>> sigmas = sigmas_for_errors(allocate_for_errors((2, 3), {(0,): 400.0, (1,): 400.0}))
    >>> {margin: round(float(sigma), 2) for margin, sigma in sigmas.items()}
    {(0,): 22.36, (1,): 22.36}
    """
    return {margin: sigma_for_variance(1 / Fraction(each)) for margin, each in allocation.precisions.items()}


def _root_down(top: int, bottom: int) -> Fraction:
    """The square root of a quotient, rounded down to about ROOT_BITS significant bits."""
    shift = ROOT_BITS - (top.bit_length() - bottom.bit_length()) // 2
    quotient = (top << 2 * shift) // bottom if shift >= 0 else top // (bottom << -2 * shift)
    return Fraction(isqrt(quotient)) / Fraction(2) ** shift


def _check_positive_values(name: str, values: Mapping[Margin, float], *, allow_zero: bool) -> dict[Margin, float]:
    for margin, value in values.items():
        if not (isfinite(value) and (value > 0 or (allow_zero and value == 0))):
            raise BadParameter(name, f"{value} for {margin}", "must be positive and finite", "give a positive number")
    kept = {margin: float(value) for margin, value in values.items() if value > 0}
    if not kept:
        raise BadParameter(name, "empty", "no table is wanted", "give at least one margin with a positive number")
    return kept


def _list_precisions(candidates: Sequence[Measured], shares: Floats) -> dict[Measured, float]:
    return {each: share for each, share in zip(candidates, shares.tolist(), strict=True) if share > 0}


@dataclass(frozen=True)
class _Found:
    shares: Floats
    lower_bound: float
    steps: int


@dataclass(frozen=True)
class _Solved(_Found):
    objective: float
    candidates: Sequence[Measured]  # what the shares are of


def _solve(lattice: Lattice, pose: "Callable[[Any], _Problem | _ErrorProblem]", contrasts: bool, gap: float) -> _Solved:
    """Divide the budget over whole tables, or over contrasts where these are allowed and better."""
    plain = pose(lattice.averaging)
    if not (contrasts and lattice.binary.any()):
        return _prune(plain, plain.minimise(gap / 2), lattice.margins, gap)
    problem = pose(lattice.contrasting)
    found = problem.minimise(gap / 2)
    whole = plain.minimise(gap / 2, found.lower_bound)
    if plain.cost(whole.shares) <= found.lower_bound * (1 + gap):
        return _prune(plain, _Found(whole.shares, found.lower_bound, found.steps + whole.steps), lattice.margins, gap)
    return _prune(problem, found, lattice.contrasts, gap)


def _prune(problem: "_Problem | _ErrorProblem", found: _Found, candidates: Sequence[Measured], gap: float) -> _Solved:
    """Leave out the smallest shares while the objective stays within the gap."""
    shares, limit = found.shares, found.lower_bound * (1 + gap)
    for exponent in range(1, 12):
        kept = np.where(shares * len(shares) < 10.0**-exponent, 0.0, shares)
        kept /= kept.sum()
        with np.errstate(divide="ignore"):
            objective = problem.cost(kept)
        if objective <= limit:
            return _Solved(kept, found.lower_bound, found.steps, objective, candidates)
    return _Solved(shares, found.lower_bound, found.steps, problem.cost(shares), candidates)


@dataclass(frozen=True)
class _Problem:
    """Minimise Σ charge/τ, τ = averaging @ shares, over shares ≥ 0 with sum 1."""

    averaging: Any  # a sparse matrix
    charges: Floats

    def evaluate(self, shares: Floats) -> tuple[float, Floats]:
        """Return the objective, and the steepness g by which it falls with each share."""
        tau = self.averaging @ shares
        ratio = self.charges / tau
        return float(ratio.sum()), self.averaging.T @ (ratio / tau)

    def cost(self, shares: Floats) -> float:
        """Return the objective."""
        return self.evaluate(shares)[0]

    def minimise(self, gap: float, floor: float = 0.0) -> _Found:
        """Return shares whose objective is at most `gap` above a certified bound, if the iterations reach that.

        With a `floor`, which is such a bound, end as soon as it is certain that none comes as near to it.
        """
        count = len(self.charges)
        shares, bound, step = np.full(count, 1 / count), floor, 0
        most = MAX_MULTIPLICATIONS if count <= MAX_NEWTON_TABLES else MAX_SPARSE_MULTIPLICATIONS
        for step in range(most):
            objective, steepness = self.evaluate(shares)
            bound = max(bound, objective**2 / float(steepness.max()))
            if objective <= bound * (1 + gap) or _is_hopeless(bound, floor, gap):
                return _Found(shares, bound, step)
            shares = shares * np.sqrt(steepness / objective)
            shares /= shares.sum()
        found = _Found(shares, bound, step)
        if count > MAX_NEWTON_TABLES or floor:
            return found
        start = np.maximum(shares, 1e-9 / count)
        return _follow(_WeightBarrier(self), start * self.evaluate(start)[0] ** 0.5, found, gap)


@dataclass(frozen=True)
class _ErrorProblem:
    """Minimise max Var/limit, Var = rebuilding @ (1/τ), τ = averaging @ shares, over shares ≥ 0 with sum 1."""

    averaging: Any
    rebuilding: Any
    limits: Floats

    def cost(self, shares: Floats) -> float:
        """Return the factor by which the shares must grow, so that all variances are within their limits."""
        return float(self._ratios(shares).max())

    def _ratios(self, shares: Floats) -> Floats:
        return np.asarray(self.rebuilding @ (1 / (self.averaging @ shares)) / self.limits)

    def bound(self, shares: Floats, multipliers: Floats) -> tuple[float, float, Floats]:
        """Return a lower bound on the factor from multipliers λ·v with sum 1, and the objective and steepness behind it."""
        objective, steepness = _Problem(self.averaging, self.rebuilding.T @ (multipliers / self.limits)).evaluate(shares)
        return objective**2 / float(steepness.max()), objective, steepness

    def minimise(self, gap: float, floor: float = 0.0) -> _Found:
        """Return shares whose factor is at most `gap` above a certified bound, if the iterations reach that; `floor` as for
        weights."""
        count, wanted = self.averaging.shape[0], len(self.limits)
        shares, multipliers = np.full(count, 1 / count), np.full(wanted, 1 / wanted)
        best, factor, bound, step = shares, inf, floor, 0
        most = MAX_MULTIPLICATIONS if count <= MAX_NEWTON_TABLES else MAX_SPARSE_MULTIPLICATIONS
        for step in range(most):
            ratios = self._ratios(shares)
            largest = float(ratios.max())
            if largest < factor:
                best, factor = shares, largest
            low, objective, steepness = self.bound(shares, multipliers)
            bound = max(bound, low)
            if factor <= bound * (1 + gap) or _is_hopeless(bound, floor, gap):
                return _Found(best, bound, step)
            shares = shares * np.sqrt(steepness / objective)
            shares /= shares.sum()
            multipliers = multipliers * (ratios / largest)
            multipliers /= multipliers.sum()
        found = _Found(best, bound, step)
        if count > MAX_NEWTON_TABLES or floor:
            return found
        start = np.maximum(best, 1e-9 / count)
        return _follow(_ErrorBarrier(self), start * 2 * self.cost(start), found, gap)


def _is_hopeless(bound: float, floor: float, gap: float) -> bool:
    """Whether nothing comes near to the floor: `gap` is half of what is allowed."""
    return floor > 0 and bound > floor * (1 + 2 * gap)


class _Barrier(Protocol):
    """A problem with a logarithmic barrier of weight 1/t, and the certificate of its points."""

    terms: int  # logarithms in the barrier: at the minimum for t, the objective is about terms/t above the least

    def value(self, a: Floats, t: float) -> float:
        """Return the objective with the barrier; ∞ outside it."""
        ...

    def derive(self, a: Floats, t: float) -> tuple[Floats, Floats]:
        """Return gradient and Hessian of the value."""
        ...

    def certify(self, a: Floats) -> tuple[Floats, float, float]:
        """Return the shares of a, their objective at budget 1 and a lower bound on every objective."""
        ...


class _WeightBarrier:
    """Σ charge/τ + Σ a − Σ (ln a)/t. At the minimum g = 1 − 1/(t·a), so the bound f²/max g is near."""

    def __init__(self, problem: _Problem) -> None:
        self.problem, self.dense = problem, problem.averaging.toarray()
        self.terms = len(self.dense)

    def value(self, a: Floats, t: float) -> float:
        return float((self.problem.charges / (self.dense @ a)).sum() + a.sum() - np.log(a).sum() / t)

    def derive(self, a: Floats, t: float) -> tuple[Floats, Floats]:
        tau = self.dense @ a
        ratio = self.problem.charges / tau**2
        hessian = (self.dense.T * (2 * ratio / tau)) @ self.dense
        hessian.flat[:: self.terms + 1] += 1 / (t * a**2)
        return 1 - self.dense.T @ ratio - 1 / (t * a), hessian

    def certify(self, a: Floats) -> tuple[Floats, float, float]:
        shares = a / a.sum()
        objective, steepness = self.problem.evaluate(shares)
        return shares, objective, objective**2 / float(steepness.max())


class _ErrorBarrier:
    """Σ a − Σ (ln(limit − Var) + ln a)/t. At the minimum 1/(t·(limit − Var)) are the multipliers λ."""

    def __init__(self, problem: _ErrorProblem) -> None:
        self.problem, self.dense, self.rows = problem, problem.averaging.toarray(), problem.rebuilding.toarray()
        self.terms = len(self.dense) + len(self.rows)

    def _left(self, a: Floats) -> Floats:
        return np.asarray(self.problem.limits - self.rows @ (1 / (self.dense @ a)))

    def value(self, a: Floats, t: float) -> float:
        left = self._left(a)
        return float(a.sum() - (np.log(left).sum() + np.log(a).sum()) / t) if (left > 0).all() else inf

    def derive(self, a: Floats, t: float) -> tuple[Floats, Floats]:
        tau, left = self.dense @ a, self._left(a)
        slopes = (self.rows / tau**2) @ self.dense  # −∂Var/∂a
        hessian = (self.dense.T * (2 * (self.rows.T @ (1 / left)) / tau**3 / t)) @ self.dense
        hessian += (slopes.T / left**2 / t) @ slopes
        hessian.flat[:: len(self.dense) + 1] += 1 / (t * a**2)
        return 1 - slopes.T @ (1 / left) / t - 1 / (t * a), hessian

    def certify(self, a: Floats) -> tuple[Floats, float, float]:
        shares, multipliers = a / a.sum(), self.problem.limits / self._left(a)
        return shares, self.problem.cost(shares), self.problem.bound(shares, multipliers / multipliers.sum())[0]


def _follow(barrier: _Barrier, a: Floats, found: _Found, gap: float) -> _Found:
    """Newton's method, each t from the minimum for the last, until the certificate is good enough."""
    best, factor, bound = barrier.certify(a)
    bound, steps, t = max(bound, found.lower_bound), found.steps, 10 * barrier.terms / float(a.sum())
    for _ in range(MAX_NEWTON_STEPS):
        steps += 1
        a, decrement = _step(barrier, a, t)
        if decrement < 0.1:
            shares, objective, low = barrier.certify(a)
            bound = max(bound, low)
            if objective < factor:
                best, factor = shares, objective
            if factor <= bound * (1 + gap):
                break
            last = barrier.terms / (t * float(a.sum())) < gap / 4
            if not last:
                t *= 10
            elif decrement < 1e-16:
                break  # doubles give no more
    return _Found(best, bound, steps)


def _step(barrier: _Barrier, a: Floats, t: float) -> tuple[Floats, float]:
    """Take one step of Newton's method, scaled by a; return its decrement too: twice what t·value may still fall."""
    gradient, hessian = barrier.derive(a, t)
    try:
        move = -cho_solve(cho_factor(hessian * a * a[:, None]), gradient * a) * a
    except LinAlgError:
        return a, 0.0
    fall = -float(gradient @ move)
    length = min(1.0, 0.99 / max(1e-300, float((-move / a).max())))
    value = barrier.value(a, t) if fall * t > 0.05 else inf  # near the minimum the whole step is right
    while length > 1e-12:
        moved = a + length * move
        after = barrier.value(moved, t)
        if isfinite(after) and after <= value - length * fall / 4:
            return moved, fall * t
        length /= 2
    return a, 0.0
