"""Allocation over levels and margins: the objective is the sum of dense variances, its gradient is right, no other solver
finds less, and the lower bound is one."""

from itertools import combinations
from math import prod

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from discreet.errors import BadParameter
from discreet.tabulation.level_allocation import _Problem, allocate_levels, total_variance
from discreet.tabulation.shapes import Shapes
from discreet.tabulation.spine import Spine
from discreet.tabulation.two_pass import TwoPass
from tests.tabulation.random_spines import random_spine, spine_of_widths

Floats = NDArray[np.float64]
SEEDS = range(6)


def margins_of(sizes: tuple[int, ...]) -> list[tuple[int, ...]]:
    columns = range(len(sizes))
    return [margin for many in range(len(sizes) + 1) for margin in combinations(columns, many)]


def averaging_of(sizes: tuple[int, ...]) -> Floats:
    """1/N of the columns of A that are not in b, where A contains b."""
    margins = margins_of(sizes)
    found = np.zeros((len(margins), len(margins)))
    for i, b in enumerate(margins):
        for j, a in enumerate(margins):
            if set(b) <= set(a):
                found[i, j] = 1 / prod(sizes[k] for k in a if k not in b)
    return found


def random_problem(seed: int) -> tuple[Spine, Floats, Floats]:
    rng = np.random.default_rng(seed)
    spine = random_spine(rng, int(rng.integers(2, 5)), roots=int(rng.integers(1, 3)))
    averaging = averaging_of(((2, 3), (2,), (4, 2))[seed % 3])
    return spine, averaging, rng.random((len(spine.levels), len(averaging)))


def dense_objective(spine: Spine, averaging: Floats, weights: Floats, a: Floats) -> float:
    total = 0.0
    for b, tau in enumerate((a @ averaging.T).T):
        total += sum(w * v.sum() for w, v in zip(weights[:, b], TwoPass(spine, tau).variances, strict=True))
    return total


def optimum_of_scipy(spine: Spine, averaging: Floats, weights: Floats) -> float:
    """Minimise by sequential quadratic programming, with the objective of this file and its differences."""
    many = weights.size
    scale = dense_objective(spine, averaging, weights, np.full(weights.shape, 1 / many))

    def objective(a: Floats) -> float:
        return dense_objective(spine, averaging, weights, a.reshape(weights.shape)) / scale

    adds_up = {"type": "eq", "fun": lambda a: a.sum() - 1}
    start, bounds = np.full(many, 1 / many), [(1e-12, 1)] * many
    options = {"maxiter": 2000, "ftol": 1e-14}
    found = minimize(objective, start, method="SLSQP", bounds=bounds, constraints=adds_up, options=options)
    return float(found.fun) * scale


@pytest.mark.parametrize("seed", SEEDS)
def test_the_objective_is_the_weighted_sum_of_variances(seed: int) -> None:
    spine, averaging, weights = random_problem(seed)
    a = np.random.default_rng(seed).dirichlet(np.ones(weights.size)).reshape(weights.shape)
    found = total_variance(spine.shapes, averaging, weights, a)
    assert np.isclose(found, dense_objective(spine, averaging, weights, a), rtol=1e-10)
    assert np.isclose(total_variance(spine.shapes, averaging, weights, 3 * a), found / 3, rtol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_gradient_is_that_of_differences(seed: int) -> None:
    spine, averaging, weights = random_problem(seed)
    problem = _Problem.read(spine.shapes, averaging, weights, None)
    a = np.random.default_rng(seed).dirichlet(np.full(weights.size, 3.0)).reshape(weights.shape)
    objective, slope = problem.evaluate(a)
    assert np.isclose((a * slope).sum(), objective, rtol=1e-11)  # Euler
    for place in np.ndindex(*a.shape):
        step = np.zeros(a.shape)
        step[place] = 1e-5 * a[place]
        difference = problem.evaluate(a - step)[0] - problem.evaluate(a + step)[0]
        assert np.isclose(difference / (2 * step[place]), slope[place], rtol=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_optimum_is_certified_and_no_other_solver_finds_less(seed: int) -> None:
    spine, averaging, weights = random_problem(seed)
    found = allocate_levels(spine.shapes, averaging, weights, gap=1e-7)
    assert np.isclose(found.precisions.sum(), 1, rtol=1e-12)
    assert found.precisions.min() >= 0
    assert found.gap <= 1e-7
    other = optimum_of_scipy(spine, averaging, weights)
    assert found.lower_bound <= other * (1 + 1e-9)
    assert np.isclose(found.objective, other, rtol=1e-6)
    again = total_variance(spine.shapes, averaging, weights, found.precisions)
    assert np.isclose(again, found.objective, rtol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_lower_bound_holds_at_every_step(seed: int) -> None:
    spine, averaging, weights = random_problem(seed)
    optimum = allocate_levels(spine.shapes, averaging, weights, gap=1e-7).objective
    for steps in range(8):
        early = allocate_levels(spine.shapes, averaging, weights, max_iterations=steps)
        assert early.lower_bound <= optimum <= early.objective * (1 + 1e-7)
        assert early.iterations <= steps


def test_a_bound_that_forgets_the_largest_slope_is_noticed() -> None:
    """The mutant F²/mean g lies above the optimum."""
    spine, averaging, weights = random_problem(1)
    problem = _Problem.read(spine.shapes, averaging, weights, None)
    objective, slope = problem.evaluate(problem.allowed / problem.allowed.size)
    optimum = allocate_levels(spine.shapes, averaging, weights).objective
    assert objective**2 / slope.mean() > optimum > objective**2 / slope.max()


def test_numbers_of_nodes_by_shape_are_enough() -> None:
    """A nation of 3 million blocks, as shapes: nothing is computed node by node."""
    from scipy.sparse import csr_array

    children = (csr_array([[50.0]]), csr_array([[60.0]]), csr_array([[20.0, 8.0]]), csr_array([[30.0], [55.0]]))
    counts = (1, 50, 3000, [60_000, 24_000], 60_000 * 30 + 24_000 * 55)
    shapes = Shapes(tuple(np.atleast_1d(np.array(each)) for each in counts), children)
    averaging = averaging_of((2, 63))
    weights = np.ones((5, 4)) / np.array([each.sum() for each in shapes.counts])[:, None]
    found = allocate_levels(shapes, averaging, weights, gap=1e-4)
    assert found.gap <= 1e-4
    even = total_variance(shapes, averaging, weights, np.full((5, 4), 1 / 20))
    assert found.objective < 0.9 * even


def test_only_allowed_tables_are_measured() -> None:
    spine = spine_of_widths([3], [2, 1, 4])
    averaging = averaging_of((2, 3))
    weights = np.ones((3, 4))
    allowed = np.array([[True] * 4, [False, True, True, False], [False, False, False, True]])
    found = allocate_levels(spine.shapes, averaging, weights, allowed=allowed, gap=1e-6)
    assert not np.any(found.precisions[~allowed])
    assert found.gap <= 1e-6
    free = allocate_levels(spine.shapes, averaging, weights, gap=1e-6)
    assert free.objective <= found.objective * (1 + 1e-6)


def test_what_cannot_be_estimated_is_refused() -> None:
    spine = spine_of_widths([3], [1, 2, 1])
    averaging, weights = averaging_of((2,)), np.ones((3, 2))
    allowed = np.array([[True, True], [True, True], [True, False]])
    with pytest.raises(BadParameter, match="no table with residual 1 on level 2 or below"):
        allocate_levels(spine.shapes, averaging, weights, allowed=allowed)
    weights[2, 1] = 0
    assert allocate_levels(spine.shapes, averaging, weights, allowed=allowed, gap=1e-6).gap <= 1e-6


def test_only_children_need_no_measurement() -> None:
    spine = spine_of_widths([3], [1, 1, 1])
    allowed = np.array([[True], [True], [False]])
    found = allocate_levels(spine.shapes, [[1.0]], np.ones((3, 1)), allowed=allowed, gap=1e-6)
    upper = allocate_levels(spine_of_widths([3]).shapes, [[1.0]], [[1.0], [2.0]], gap=1e-6)
    assert np.isclose(found.objective, upper.objective, rtol=1e-5)


@pytest.mark.parametrize(
    ("weights", "message"),
    [([[1.0]], "of shape"), ([[0.0], [0.0]], "one must be above 0"), ([[-1.0], [1.0]], "from 0 up")],
)
def test_weights_that_are_none(weights: list[list[float]], message: str) -> None:
    with pytest.raises(BadParameter, match=message):
        allocate_levels(spine_of_widths([2]).shapes, [[1.0]], weights)
