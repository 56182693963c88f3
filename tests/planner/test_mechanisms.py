"""Predicted errors agree with simulation, for every query and mechanism, and with independent computations."""

from dataclasses import replace
from fractions import Fraction
from functools import cache
from math import comb, log, sqrt
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from discreet import (
    Count,
    Gaussian,
    Histogram,
    Laplace,
    Mean,
    Neighbours,
    Plan,
    RandomizedResponse,
    Sum,
    gaussian_epsilon,
    plan,
)
from discreet.mechanisms import DiscreteGaussian
from discreet.planner import PlannerQuery
from discreet.planner.mechanisms import LOCAL_MECHANISM, report_deviation_quantile, root_mean_square
from discreet.planner.task import ErrorMetric, Task
from discreet.testing import seeded_bits
from tests.support.rounds import pairs_by_day
from tests.support.simulated_plans import QUERIES, find_refuted, predict_errors, simulate_errors

MECHANISMS = ("Laplace", "Gaussian", "discrete Gaussian", "randomised response")
CONFIDENCE = 0.95


@cache
def make_plan(name: str, queries: int) -> Plan:
    """Plan for 300 people, where some shares of holders are tried; or for 60, where every number of them is."""
    n, epsilon = (300, 1) if queries == 1 else (60, 2)
    return plan(QUERIES[name], epsilon=epsilon, delta=1e-6, n=n, queries=queries, confidence=CONFIDENCE)


@pytest.mark.parametrize(("name", "queries", "mechanism"), pairs_by_day(QUERIES, [1, 3], MECHANISMS))
def test_errors_are_as_predicted(name: str, queries: int, mechanism: str) -> None:
    query = QUERIES[name]
    (row,) = (row for row in make_plan(name, queries).rows if row.mechanism == mechanism)
    errors = simulate_errors(row, query, queries, seeded_bits(8000 + queries))
    assert not [*find_refuted(predict_errors(row, query, CONFIDENCE), errors)]


SOLVED = [(name, mechanism) for name in ("count", "mean") for mechanism in MECHANISMS]
SOLVED += [("histogram", mechanism) for mechanism in MECHANISMS[:3]]


@pytest.mark.parametrize("goal", [{"error": "5%"}, {"rmse": "3%"}, {"error": "5%", "each": True}], ids=str)
@pytest.mark.parametrize(("name", "mechanism"), SOLVED)
def test_the_planned_number_of_people_is_enough(name: str, mechanism: str, goal: dict[str, Any]) -> None:
    query = QUERIES[name]
    found = plan(query, epsilon=3, delta=1e-6, confidence=CONFIDENCE, **goal)
    (row,) = (row for row in found.rows if row.mechanism == mechanism)
    predicted = predict_errors(row, query, CONFIDENCE)
    errors = simulate_errors(row, query, 1, seeded_bits(8100))
    assert not [*find_refuted(predicted, errors[:, :1] if "each" in goal else errors)]


def test_the_quantile_of_continuous_laplace_noise_is_refuted() -> None:
    (row, *_) = make_plan("count", 1).rows
    assert isinstance(row.noise, Laplace)
    continuous = row.scale * log(1 / (1 - CONFIDENCE))  # 2.996 where integer noise needs 3
    wrong = replace(predict_errors(row, QUERIES["count"], CONFIDENCE), each=continuous)
    assert "each: the half-width is too small" in [
        *find_refuted(wrong, simulate_errors(row, QUERIES["count"], 1, seeded_bits(8001)))
    ]


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("factor", [0.95, 1.05])
def test_a_mutant_with_five_per_cent_more_or_less_noise_is_refuted(name: str, factor: float) -> None:
    (row,) = (row for row in make_plan(name, 1).rows if row.mechanism == "Gaussian")
    mutant = Gaussian(float(row.noise.sigma) * factor)  # type: ignore[union-attr]
    predicted = predict_errors(row, QUERIES[name], CONFIDENCE)
    assert "rmse" in [*find_refuted(predicted, simulate_errors(row, QUERIES[name], 1, seeded_bits(8201), noise=mutant))]


@pytest.mark.parametrize("name", ["count", "proportion", "mean", "histogram"])
def test_a_mutant_with_another_probability_of_the_truth_is_refuted(name: str) -> None:
    (row,) = (row for row in make_plan(name, 1).rows if isinstance(row.noise, RandomizedResponse))
    mutant = RandomizedResponse.for_epsilon(0.85, row.noise.choices)  # type: ignore[union-attr]
    query = QUERIES[name]
    predicted = predict_errors(row, query, CONFIDENCE)
    assert [*find_refuted(predicted, simulate_errors(row, query, 1, seeded_bits(8300), noise=mutant))]
    if isinstance(query, Sum | Mean):
        assert [
            *find_refuted(replace(predicted, rmse=1.06 * predicted.rmse), simulate_errors(row, query, 1, seeded_bits(8300)))
        ]


# -- independent computations -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "h", "p", "q"), [(30, 7, 0.73, 0.27), (101, 0, 0.6, 0.4), (400, 150, 0.3, 0.07), (64, 64, 0.999, 0.001)]
)
def test_quantiles_of_reports_are_those_of_the_exact_distribution(n: int, h: int, p: float, q: float) -> None:
    pmf = np.convolve(binom.pmf(np.arange(h + 1), h, p), binom.pmf(np.arange(n - h + 1), n - h, q))
    off = np.abs(np.arange(n + 1) - (h * p + (n - h) * q))
    for tail in (0.3, 0.05, 1e-4):
        t = report_deviation_quantile(n, h, p, q, tail)
        assert pmf[off > t].sum() <= tail
        assert pmf[off > t - 1e-6].sum() > tail - 1e-12


def test_bounds_for_very_many_people_are_near_the_exact_quantile() -> None:
    exact = report_deviation_quantile(10**9, 5 * 10**8, 0.6, 0.4, 0.05)
    assert exact == pytest.approx(1.959964 * sqrt(0.24e9), rel=1e-4)
    assert exact <= report_deviation_quantile(10**9 + 2, 5 * 10**8 + 1, 0.6, 0.4, 0.05) <= 1.001 * exact
    assert report_deviation_quantile(10**4, 5000, 0.6, 0.4, 1e-12) >= 7.1 * sqrt(0.24e4)


@pytest.mark.parametrize("n", [65, 100, 257])
@pytest.mark.parametrize(("query", "epsilon"), [(Count(), 1.0), (Count(), 3.0), (Histogram(5), 1.5)])
def test_no_number_of_yes_sayers_strays_further_than_make_plan(n: int, query: PlannerQuery, epsilon: float) -> None:
    task = Task(query, Neighbours.ADD_REMOVE, 1, Fraction(0), Fraction(19, 20), ErrorMetric.EACH)
    response = LOCAL_MECHANISM.build_noise(task, Fraction(epsilon))
    worst = max(report_deviation_quantile(n, h, float(response.truth), float(response.other), 0.05) for h in range(n + 1))
    predicted = LOCAL_MECHANISM.predict_accuracy(task, Fraction(epsilon), n).each * (response.truth - response.other)
    assert worst <= predicted <= worst + 1.0001


def test_root_mean_squares_are_those_of_the_discrete_noise() -> None:
    k = np.arange(-4000, 4001)
    for scale in (Fraction(1, 3), Fraction(1), Fraction(40)):
        laplace = np.exp(-np.abs(k) / float(scale))
        gauss = np.exp(-((k / float(scale)) ** 2) / 2)
        for noise, weights in ((Laplace(scale), laplace), (DiscreteGaussian(scale), gauss)):
            assert root_mean_square(noise, Fraction(1)) == pytest.approx(
                sqrt((k**2 * weights).sum() / weights.sum()), rel=1e-8
            )
        spread = np.random.default_rng(5).normal(0, float(scale), 400_000).round()
        assert root_mean_square(Gaussian(scale), Fraction(1)) == pytest.approx(spread.std(), rel=0.02)
    assert root_mean_square(Gaussian(Fraction(799, 100)), Fraction(1)) == pytest.approx(sqrt(7.99**2 + 1 / 12), rel=1e-8)


def test_a_row_has_the_exact_and_the_textbook_half_width() -> None:
    row = {r.mechanism: r for r in plan(Count(), epsilon=Fraction(1, 10), delta=1e-6, n=10**4).rows}
    assert row["Laplace"].textbook == pytest.approx(10 * log(20))
    sigma = sqrt(2 * log(1.25e6)) * 10
    assert row["Gaussian"].textbook == pytest.approx(sigma * sqrt(2 * log(40)))
    assert row["Gaussian"].half_width < 0.8 * row["Gaussian"].textbook
    truth = float(row[LOCAL_MECHANISM.name].noise.truth)  # type: ignore[union-attr]
    assert row[LOCAL_MECHANISM.name].textbook == pytest.approx(sqrt(log(40) / 2 * 10**4) / (2 * truth - 1))
    assert {r.mechanism: r.textbook for r in plan(Count(), epsilon=2, delta=1e-6).rows}["Gaussian"] is None


def test_the_gaussian_is_calibrated_by_its_exact_curve() -> None:
    row = next(r for r in plan(Count(), epsilon=1, delta=1e-6, queries=1000).rows if r.mechanism == "Gaussian")
    assert row.scale == pytest.approx(133.596076731, rel=1e-9)
    assert gaussian_epsilon(sqrt(1000) / row.scale, 1e-6).upper <= 1 + 1e-12


def test_a_binomial_distribution_is_built_up_exactly() -> None:
    n = 50
    pmf = [comb(n, k) / 2**n for k in range(n + 1)]
    half = report_deviation_quantile(n, n, 0.5, 0.5, 0.05)
    assert (
        sum(pmf[k] for k in range(n + 1) if abs(k - 25) > half)
        <= 0.05
        < sum(pmf[k] for k in range(n + 1) if abs(k - 25) > half - 1e-6)
    )
