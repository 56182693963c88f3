"""Simulated counts are distributed as counts of reports that are drawn one by one, together and not only each on its own."""

from fractions import Fraction
from math import sqrt

import numpy as np
import pytest
from numpy.typing import NDArray

from discreet import BadParameter
from discreet.local.oracles import Direct, Projective, SetOracle, Subset
from discreet.local.simulating import list_cells, simulate_counts, simulate_population
from tests.support.local_errors import list_oracles

ORACLES = list_oracles("1")
RUNS = 1500


def compute_moments(oracle: SetOracle, holders: list[int]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the exact means and covariances of the supports, from all reports."""
    d, reports = oracle.values, list(oracle.base_reports())
    sets = np.array([[oracle.supports(report, v) for v in range(d)] for report, _ in reports], float)
    mean, covariance = np.zeros(d), np.zeros((d, d))
    for value, people in enumerate(holders):
        chances = np.array([float(oracle.probability(report, base, value)) for report, base in reports])
        own = chances @ sets
        mean += people * own
        covariance += people * ((sets * chances[:, None]).T @ sets - np.outer(own, own))
    return mean, covariance


def find_wrong_moments(oracle: SetOracle, drawn: NDArray[np.int64], holders: list[int]) -> list[str]:
    """Compare means, variances and covariances with the exact ones, at 7.5 standard errors."""
    mean, covariance = compute_moments(oracle, holders)
    centred = drawn - mean
    problems = []
    scale = np.sqrt(np.maximum(np.diag(covariance), 1e-9))
    if (abs(centred.mean(axis=0)) > 7.5 * scale / sqrt(len(drawn)) + 1e-9).any():
        problems.append("means")
    products = centred[:, :, None] * centred[:, None, :]
    error = products.std(axis=0) / sqrt(len(drawn)) + 1e-9 * np.outer(scale, scale).max()
    if (abs(products.mean(axis=0) - covariance) > 7.5 * error).any():
        problems.append("covariances")
    return problems


@pytest.mark.parametrize("name", ORACLES)
def test_counts_have_the_exact_means_and_covariances(name: str) -> None:
    oracle = ORACLES[name]
    holders = [60, 30, 0, 10, 20] + [0] * (oracle.values - 6) + [40] if oracle.values > 5 else [60, 30, 0, 10, 20]
    random = np.random.default_rng(1)
    drawn = np.array([simulate_counts(oracle, holders, random).supports for _ in range(RUNS)])
    assert find_wrong_moments(oracle, drawn, holders) == []


def test_the_test_notices_cells_that_are_drawn_apart_from_each_other() -> None:
    oracle, holders = ORACLES["projective"], [60, 30, 0, 10, 20, 0, 0, 0, 40]
    random = np.random.default_rng(1)
    p, q = float(oracle.truth_support), float(oracle.other_support)
    held = np.array(holders)
    apart = random.binomial(held, p, (20 * RUNS, 9)) + random.binomial(160 - held, q, (20 * RUNS, 9))
    assert find_wrong_moments(oracle, apart, holders) == ["covariances"]


@pytest.mark.parametrize("name", ORACLES)
def test_a_billion_people_have_the_exact_means(name: str) -> None:
    oracle = ORACLES[name]
    holders = [50_000_000 * (value % 3) for value in range(oracle.values)]
    mean, covariance = compute_moments(oracle, holders)
    drawn = simulate_counts(oracle, holders, seed=1).supports
    assert (abs(drawn - mean) <= 7.5 * np.sqrt(np.diag(covariance)) + 1e-3).all()


@pytest.mark.parametrize("name", ["direct", "subset", "hashed", "hadamard", "projective", "fixed hashed"])
def test_a_population_has_the_exact_means(name: str) -> None:
    oracle = ORACLES[name]
    weights = list(range(1, oracle.values + 1))
    counts = simulate_population(oracle, 10**9, weights, seed=1)
    p, q = float(oracle.truth_support), float(oracle.other_support)
    share = np.array(weights) / sum(weights)
    if name == "fixed hashed":
        mean, _ = compute_moments(oracle, weights)
        expected = mean / sum(weights)
    else:
        expected = share * p + (1 - share) * q
    assert counts.n == 10**9
    assert (abs(counts.supports / 1e9 - expected) < 7.5 * 0.5 / sqrt(1e9)).all()


@pytest.mark.parametrize("name", ["hashed", "hadamard", "projective", "fixed hashed", "direct"])
def test_the_cells_of_a_value_are_the_reports_that_support_it(name: str) -> None:
    oracle = ORACLES[name]
    belows = [field.below for field in oracle.fields]
    for value in range(oracle.values):
        expected = [
            int(np.ravel_multi_index(report, belows))
            for report, _ in oracle.base_reports()
            if oracle.supports(report, value)
        ]
        assert sorted(list_cells(oracle, value).tolist()) == sorted(expected)


def test_a_billion_people_are_simulated_in_parts_where_needed() -> None:
    oracle = Subset(8, Fraction(3), 3)
    counts = simulate_counts(oracle, [2 * 10**9, 0, 0, 0, 0, 0, 0, 10**6 + 1], seed=1)
    assert counts.n == 2 * 10**9 + 10**6 + 1
    assert int(counts.supports.sum()) == 3 * counts.n


def test_nobody_and_wrong_people() -> None:
    oracle = Direct(3, Fraction(3))
    assert simulate_counts(oracle, [0, 0, 0]).n == 0
    for holders in ([1, 2], [1, 2, -1], [0.5, 1, 1]):
        with pytest.raises(BadParameter, match="holders"):
            simulate_counts(oracle, holders)
    with pytest.raises(BadParameter, match="weights"):
        simulate_population(Projective.optimised(3, Fraction(3)), 10, [0, 0, 0])
