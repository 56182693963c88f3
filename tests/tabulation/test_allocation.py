"""Allocations are optimal: they equal independent solvers and published figures, and carry a bound that nothing beats."""

from collections.abc import Mapping
from fractions import Fraction
from itertools import chain, combinations
from math import isqrt, prod

import numpy as np
import pytest
from scipy.optimize import minimize

from discreet.errors import BadParameter
from discreet.tabulation import allocation as module
from discreet.tabulation.allocation import Allocation, allocate, allocate_for_errors, round_sigmas, sigmas_for_errors
from discreet.tabulation.intervals import ErrorModel, choose_noise
from discreet.tabulation.margins import Margin, list_closure
from discreet.tabulation.residuals import cell_variance, residual_precisions
from tests.support.rounds import every_nth_by_day

ADULT = (15, 9, 16, 7, 15, 6, 5, 2, 8, 8, 10, 42, 2)


def ways(columns: int, *lengths: int) -> list[Margin]:
    return [margin for length in lengths for margin in combinations(range(columns), length)]


def subsets(margin: Margin) -> list[Margin]:
    return list(chain.from_iterable(combinations(margin, length) for length in range(len(margin) + 1)))


def variance_of(sizes: tuple[int, ...], precisions: Mapping[Margin, float], wanted: Margin) -> float:
    """The variance of a cell, written out: an oracle that shares no code with the allocation."""
    total = 0.0
    for b in subsets(wanted):
        tau = sum(a / prod(sizes[i] for i in m if i not in b) for m, a in precisions.items() if set(b) <= set(m))
        total += prod(1 - 1 / sizes[i] for i in b) / prod(sizes[i] ** 2 for i in wanted if i not in b) / tau
    return total


def objective_of(sizes: tuple[int, ...], precisions: Mapping[Margin, float], weights: Mapping[Margin, float]) -> float:
    return sum(w * prod(sizes[i] for i in m) * variance_of(sizes, precisions, m) for m, w in weights.items())


def draw_problem(seed: int) -> tuple[tuple[int, ...], dict[Margin, float]]:
    rng = np.random.default_rng(seed)
    columns = int(rng.integers(1, 4))
    sizes = tuple(rng.integers(2, 7, size=columns).tolist())
    margins = list_closure([tuple(range(columns))])
    chosen = rng.choice(len(margins), size=int(rng.integers(1, len(margins) + 1)), replace=False)
    return sizes, {margins[i]: float(10 ** rng.uniform(-1.5, 1.5)) for i in chosen}


# -- the certificate -------------------------------------------------------------------------------------------------------


def check_certificate(sizes: tuple[int, ...], weights: dict[Margin, float], found: Allocation, gap: float = 1e-6) -> None:
    assert sum(found.precisions.values()) == pytest.approx(1, rel=1e-12)
    assert found.objective == pytest.approx(objective_of(sizes, found.precisions, weights), rel=1e-9)
    assert found.lower_bound <= found.objective <= found.lower_bound * (1 + 1.01 * gap)
    rng, closure = np.random.default_rng(0), list_closure(weights)
    for _ in range(20):
        other = dict(zip(closure, rng.dirichlet(np.full(len(closure), 0.5)) + 1e-12, strict=True))
        scale = sum(other.values())
        assert objective_of(sizes, {m: a / scale for m, a in other.items()}, weights) >= found.lower_bound


@pytest.mark.parametrize("seed", range(40))
def test_the_gap_is_certified(seed: int) -> None:
    sizes, weights = draw_problem(seed)
    check_certificate(sizes, weights, allocate(sizes, weights))


@pytest.mark.parametrize("seed", every_nth_by_day(range(25), 3))
def test_allocations_are_those_of_an_independent_solver(seed: int) -> None:
    sizes, weights = draw_problem(seed)
    closure = list_closure(weights)

    def objective(logs: np.ndarray) -> float:  # type: ignore[type-arg]
        a = np.exp(logs - logs.max())
        return float(np.log(objective_of(sizes, dict(zip(closure, a / a.sum(), strict=True)), weights)))

    solved = minimize(objective, np.zeros(len(closure)), method="BFGS", options={"gtol": 1e-8, "maxiter": 2000})
    assert allocate(sizes, weights).objective == pytest.approx(np.exp(solved.fun), rel=2e-5)
    assert allocate(sizes, weights).lower_bound <= np.exp(solved.fun)


@pytest.mark.parametrize("seed", every_nth_by_day(range(20), 3))
@pytest.mark.parametrize("spread", [3, 6])
def test_unlike_weights_are_certified_too(seed: int, spread: int) -> None:
    """Where many tables are not worth measuring, multiplication converges slowly: Newton's method takes over."""
    rng = np.random.default_rng(seed)
    sizes = tuple(rng.integers(2, 9, size=5).tolist())
    margins = list_closure([tuple(range(5))])
    weights = {m: float(10 ** rng.uniform(-spread, spread)) for m in margins if rng.random() < 0.3}
    assert allocate(sizes, weights).gap <= 1e-6
    assert allocate_for_errors(sizes, weights).gap <= 1e-6


def test_an_objective_that_is_its_own_bound_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop_at_equal_shares(problem: module._Problem, gap: float) -> module._Found:
        shares = np.full(len(problem.charges), 1 / len(problem.charges))
        return module._Found(shares, problem.evaluate(shares)[0], 0)

    weights = dict.fromkeys(ways(3, 2), 1.0)
    monkeypatch.setattr(module._Problem, "minimise", stop_at_equal_shares)
    with pytest.raises(AssertionError):
        check_certificate((2, 3, 4), weights, allocate((2, 3, 4), weights))


# -- published figures -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "lengths", "expected"),
    [
        ((2, 3, 4), (0, 1), 23.295858), ((2, 3, 4), (2,), 52.729540), ((2, 3, 4), (0, 1, 2), 92.648445),
        ((2, 3, 4), (0, 1, 2, 3), 136.425903), ((2, 2, 2, 2), (0, 1), 22.0), ((2, 2, 2, 2), (2,), 66.0),
        ((2, 2, 2, 2), (0, 1, 2), 94.0), ((2, 2, 2, 2), (0, 1, 2, 3, 4), 193.994845),
        ((3, 5), (0, 1), 17.487730), ((3, 5), (2,), 15.0), ((3, 5), (0, 1, 2), 44.368979),
        ((2, 3, 3), (0, 1), 20.384180), ((2, 3, 3), (2,), 41.507728), ((2, 3, 3), (0, 1, 2), 74.339480),
        ((2, 3, 3), (0, 1, 2, 3), 106.156112),
    ],
)  # fmt: skip
def test_total_variances_of_small_workloads(sizes: tuple[int, ...], lengths: tuple[int, ...], expected: float) -> None:
    found = allocate(sizes, dict.fromkeys(ways(len(sizes), *lengths), 1.0), gap=1e-8)
    assert found.objective == pytest.approx(expected, abs=1e-4)
    assert found.gap <= 1e-8


@pytest.mark.parametrize(
    ("lengths", "per_table", "expected"),
    [
        ((1,), False, 3.14066),
        ((2,), False, 6.82017),
        ((3,), False, 11.72200),
        ((0, 1, 2, 3), False, 11.71676),
        ((0, 1, 2, 3), True, 12.88178),
    ],
)
def test_root_mean_square_errors_of_adult(lengths: tuple[int, ...], per_table: bool, expected: float) -> None:
    margins = ways(13, *lengths)
    cells = {m: prod(ADULT[i] for i in m) for m in margins}
    found = allocate(ADULT, {m: 1 / cells[m] if per_table else 1.0 for m in margins})
    total = len(margins) if per_table else sum(cells.values())
    assert (found.objective / total) ** 0.5 == pytest.approx(expected, abs=2e-5)
    assert found.gap <= 1e-6


def test_few_tables_are_measured_where_few_are_worth_it() -> None:
    assert allocate((3, 5), {(0, 1): 1.0}).precisions.keys() == {(0, 1)}


# -- columns of one value --------------------------------------------------------------------------------------------------


def test_columns_of_one_value_change_nothing() -> None:
    plain = allocate((2, 3), {(0, 1): 1.0, (0,): 3.0})
    padded = allocate((2, 1, 3, 1), {(0, 1, 2, 3): 0.5, (0, 2): 0.5, (0,): 1.0, (0, 3): 2.0})
    assert padded.objective == pytest.approx(plain.objective, rel=1e-6)
    assert set(padded.precisions) == {tuple({0: 0, 1: 2}[i] for i in margin) for margin in plain.precisions}


# -- wanted errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", every_nth_by_day(range(40), 3))
def test_wanted_variances_hold_at_the_least_sum(seed: int) -> None:
    sizes, wanted = draw_problem(seed)
    found = allocate_for_errors(sizes, wanted)
    assert found.gap <= 1e-6
    assert sum(found.precisions.values()) == pytest.approx(found.objective, rel=1e-9)
    assert all(variance_of(sizes, found.precisions, m) <= v * (1 + 1e-14) for m, v in wanted.items())


@pytest.mark.parametrize("seed", every_nth_by_day(range(20), 3))
def test_wanted_variances_cost_what_an_independent_solver_finds(seed: int) -> None:
    sizes, wanted = draw_problem(seed)
    closure = list_closure(wanted)

    def left(logs: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        precisions = dict(zip(closure, np.exp(logs), strict=True))
        return np.array([np.log(v / variance_of(sizes, precisions, m)) for m, v in wanted.items()])

    solved = minimize(
        lambda logs: float(np.log(np.exp(logs).sum())), np.full(len(closure), -np.log(min(wanted.values()))), method="SLSQP",
        bounds=[(-20, 20)] * len(closure), constraints={"type": "ineq", "fun": left},
        options={"ftol": 1e-12, "maxiter": 2000},
    )  # fmt: skip
    precisions = dict(zip(closure, np.exp(solved.x), strict=True))
    scale = max(variance_of(sizes, precisions, m) / v for m, v in wanted.items())  # makes it feasible
    cost = sum(precisions.values()) * scale
    assert allocate_for_errors(sizes, wanted).lower_bound <= cost
    assert allocate_for_errors(sizes, wanted).objective == pytest.approx(cost, rel=1e-4)


@pytest.mark.parametrize("seed", every_nth_by_day(range(20), 3))
@pytest.mark.parametrize("scale", [0.05, 1.0, 30.0, 1000.0])
def test_the_noise_for_wanted_variances_has_them(seed: int, scale: float) -> None:
    sizes, drawn = draw_problem(seed)
    wanted = {m: v * scale for m, v in drawn.items()}
    sigmas = sigmas_for_errors(allocate_for_errors(sizes, wanted))
    model = ErrorModel(sizes, {m: choose_noise(sigma) for m, sigma in sigmas.items()})
    assert all(model.parts(m).variance <= v * (1 + 1e-8) for m, v in wanted.items())


# -- rounding --------------------------------------------------------------------------------------------------------------


def check_rounding(found: Allocation, budget: Fraction) -> None:
    sigmas = round_sigmas(found, budget)
    total = sum(map(Fraction, found.precisions.values()))
    assert sum(1 / sigma**2 for sigma in sigmas.values()) <= budget
    for margin, sigma in sigmas.items():
        share = Fraction(found.precisions[margin]) / total * budget
        assert share * (1 - Fraction(1, 2**28)) <= 1 / sigma**2 <= share


BUDGETS = [
    Fraction(1),
    Fraction(1, 3),
    Fraction(354, 10**6),
    Fraction(293764, 114921),
    Fraction(10**9, 7),
    Fraction(1, 10**15),
]


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("seed", range(10))
def test_rounded_precisions_stay_in_the_budget_exactly(seed: int, budget: Fraction) -> None:
    check_rounding(allocate(*draw_problem(seed)), budget)


def test_a_budget_of_a_whole_workload_is_added_exactly() -> None:
    check_rounding(allocate(ADULT, dict.fromkeys(ways(13, 0, 1, 2, 3), 1.0)), Fraction(354, 10**6))


def test_rounding_to_nearest_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def nearest(top: int, bottom: int) -> Fraction:
        shift = 30 - (top.bit_length() - bottom.bit_length()) // 2
        scaled = Fraction(top, bottom) * Fraction(4) ** (shift + 1)
        return Fraction((isqrt(scaled.numerator // scaled.denominator) + 1) // 2) / Fraction(2) ** shift

    monkeypatch.setattr(module, "_root_down", nearest)
    with pytest.raises(AssertionError):
        check_rounding(allocate(ADULT, dict.fromkeys(ways(13, 2), 1.0)), Fraction(1, 50))


def test_the_variance_of_an_allocation_is_that_of_its_residuals() -> None:
    weights = dict.fromkeys(ways(4, 2), 1.0)
    found = allocate((2, 3, 4, 5), weights)
    tau = residual_precisions((2, 3, 4, 5), found.precisions)
    for margin in weights:
        expected = variance_of((2, 3, 4, 5), found.precisions, margin)
        assert cell_variance((2, 3, 4, 5), tau, margin) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("values", [{}, {(0,): 0.0}, {(0,): -1.0}, {(0,): float("nan")}, {(0,): float("inf")}, {(2,): 1.0}])
def test_wrong_weights_are_refused(values: dict[Margin, float]) -> None:
    with pytest.raises(BadParameter):
        allocate((2, 3), values)
    with pytest.raises(BadParameter):
        allocate_for_errors((2, 3), values)
