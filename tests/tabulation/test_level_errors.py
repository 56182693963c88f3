"""The least budget for limits by level: the gradient, an independent solver, and bounds that no allocation undercuts."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from discreet.tabulation.level_errors import LevelLimit, _Problem, allocate_for_level_errors
from discreet.tabulation.margins import Lattice
from discreet.tabulation.spine import Spine
from discreet.tabulation.two_pass import TwoPass
from tests.support.rounds import at_night
from tests.tabulation.random_spines import random_spine


def make_problem(seed: int) -> tuple[Spine, _Problem]:
    rng = np.random.default_rng(seed)
    spine = random_spine(rng, 3, most=4)
    lattice = Lattice.of((2, 3), [(0, 1)])
    rebuilding = lattice.rebuilding.toarray()
    limits = [
        LevelLimit(level, rebuilding[place], float(rng.uniform(1, 30)))
        for level in range(3)
        for place in rng.choice(len(lattice.margins), 2, replace=False)
    ]
    limits.append(LevelLimit(2, rebuilding[-1], 20.0))
    return spine, _Problem(spine.shapes, spine.paths, lattice.averaging.toarray(), tuple(limits))


@pytest.mark.parametrize("seed", range(4))
def test_variances_are_those_of_two_passes_and_the_gradient_is_that_of_differences(seed: int) -> None:
    spine, problem = make_problem(seed)
    rng = np.random.default_rng(seed)
    x = rng.random((3, len(problem.averaging)))
    x /= x.sum()
    found = problem.find_variances(x)
    tau = x @ problem.averaging.T
    for b in range(tau.shape[1]):
        for level, expected in enumerate(TwoPass(spine, tau[:, b]).variances):
            assert np.allclose(found.of_group[level][spine.paths.of_node[level], b], expected)
    multipliers = [rng.random(len(each)) for each in problem.start()]

    def weigh(at: Any) -> float:
        variances = problem.find_variances(at)
        return problem.weigh(variances, multipliers, problem.list_ratios(variances))[0]

    value, gradient = problem.weigh(found, multipliers, problem.list_ratios(found))
    assert (x * gradient).sum() == pytest.approx(value)  # Euler
    for place in np.ndindex(*x.shape):
        less, more = x.copy(), x.copy()
        step = 1e-4 * x[place]
        less[place] -= step
        more[place] += step
        assert (weigh(less) - weigh(more)) / (2 * step) == pytest.approx(gradient[place], rel=1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_the_least_budget_is_that_of_an_independent_solver(seed: int) -> None:
    spine, problem = make_problem(seed)
    found = allocate_for_level_errors(spine.shapes, spine.paths, problem.averaging, problem.limits, gap=1e-3)
    assert problem.evaluate(found.precisions) <= 1 + 1e-9
    assert found.objective == pytest.approx(float(found.precisions.sum()))

    def slack(z: Any) -> Any:
        return 1 - np.concatenate(problem.list_ratios(problem.find_variances(np.exp(z).reshape(found.precisions.shape))))

    start = np.log(np.maximum(found.precisions, 1e-4)).ravel() + 0.1
    solved = minimize(
        lambda z: np.exp(z).sum(), start, jac=np.exp, constraints={"type": "ineq", "fun": slack}, method="SLSQP",
        options={"maxiter": 300, "ftol": 1e-10},
    )  # fmt: skip
    if slack(solved.x).min() > -1e-7:
        assert found.lower_bound <= solved.fun * (1 + 1e-6)
        assert found.objective <= solved.fun * (1 + 1.1e-3)


def test_a_bound_from_half_the_gradient_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: a gradient that is too small certifies a bound above what a solver reaches."""
    spine, problem = make_problem(1)
    honest = allocate_for_level_errors(spine.shapes, spine.paths, problem.averaging, problem.limits, gap=1e-3)
    weigh = _Problem.weigh
    monkeypatch.setattr(_Problem, "weigh", lambda self, *given: (weigh(self, *given)[0], weigh(self, *given)[1] / 2))
    mutant = allocate_for_level_errors(spine.shapes, spine.paths, problem.averaging, problem.limits, gap=1e-3)
    assert honest.lower_bound <= honest.objective <= honest.lower_bound * 1.0011
    assert mutant.objective > honest.objective * 1.0011  # it stops early, and says that it is at the least


def test_looser_limits_cost_less() -> None:
    spine, problem = make_problem(2)
    looser = tuple(replace(each, variance=4 * each.variance) for each in problem.limits)
    one = allocate_for_level_errors(spine.shapes, spine.paths, problem.averaging, problem.limits)
    other = allocate_for_level_errors(spine.shapes, spine.paths, problem.averaging, looser)
    assert other.objective == pytest.approx(one.objective / 4, rel=1e-3)


def is_unmeasured(width: float) -> bool:
    """Whether a residual of a table, whose limit is wide beside that of another, is measured on no level."""
    spine, lattice = Spine.from_codes(["11", "12", "21", "22"], [0, 1, 2]), Lattice.of((2, 6), [(0,), (), (0, 1)])
    errors = {(): 1.0, (0,): 1.0, (0, 1): width}
    rows = {margin: lattice.rebuilding.toarray()[lattice.index[margin]] for margin in errors}
    limits = [LevelLimit(level, rows[margin], error**2) for level in range(3) for margin, error in errors.items()]
    found = allocate_for_level_errors(spine.shapes, spine.paths, lattice.averaging, limits)
    return not (found.precisions @ lattice.averaging.toarray().T)[2].all()


@pytest.mark.parametrize("step", [10, at_night(4)])
def test_a_table_whose_limit_is_very_wide_is_measured_all_the_same(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    widths = [10.0**power for power in range(0, 21, step)]
    assert not any(map(is_unmeasured, widths))
    monkeypatch.setattr(_Problem, "can_estimate", lambda self, x: True)
    assert any(map(is_unmeasured, widths))
