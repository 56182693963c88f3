"""Two of accuracy, ε and n give the third: there and back, in one direction only, and by independent computation."""

import re
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from math import comb, inf, log, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from discreet import (
    Count,
    Histogram,
    Mean,
    Neighbours,
    Proportion,
    RandomizedResponse,
    Sum,
    epsilon,
    gaussian_epsilon,
    plan,
    pure,
)
from discreet._numbers import smallest_where
from discreet.mechanisms import DiscreteGaussian, Gaussian, Laplace
from discreet.mechanisms.textbook_accuracy import (
    gaussian_wins_from,
    laplace_expected_max,
    laplace_sample_size,
    response_sample_size,
)
from discreet.planner import PlannerQuery
from discreet.planner.central import CENTRAL_MECHANISMS, root_mean_square
from discreet.planner.local import LOCAL_MECHANISM, report_deviation_quantile
from discreet.planner.search import Mechanism, round_up, solve_epsilon, solve_n
from discreet.planner.task import ErrorMetric, Goal, Task, is_real, resolve_neighbours
from discreet.query.calibrate import MAX_EPSILON

SIZED = [Proportion(), Mean(0, 100), Mean(-3, 5, whole=True)]
ALL: list[PlannerQuery] = [*SIZED, Count(), Sum(-5, 10), Sum(0, 7, whole=True), Histogram(9)]
LAWS = settings(max_examples=30, deadline=None, derandomize=True)
errors = st.integers(1, 400).map(lambda thousandths: Fraction(thousandths, 1000))
prices = st.integers(1, 60).map(lambda tenths: Fraction(tenths, 10))
people = st.integers(20, 5000)
WAYS: list[Mechanism] = [*CENTRAL_MECHANISMS, LOCAL_MECHANISM]


def wide(question: PlannerQuery, share: Fraction) -> Fraction:
    """An error of about that share of what a person is worth, for any question."""
    return share * (question.upper - question.lower if isinstance(question, Mean | Sum) else 1)


def asked(question: PlannerQuery, queries: int, aim: ErrorMetric) -> Task:
    return Task(question, resolve_neighbours(question, None), queries, Fraction(1, 10**6), Fraction(19, 20), aim)


def paid(way: Mechanism, task: Task, price: Fraction) -> Fraction | float:
    """The price of the noise, read off it by the account and not by the planner."""
    noise = way.build_noise(task, price)
    if isinstance(noise, RandomizedResponse):
        return pure(noise.event() * task.queries)
    loss = noise.event(task.sensitivity, noise.grid if is_real(task.query) else 1)
    return pure(loss) if isinstance(noise, Laplace) else float(epsilon(loss, task.delta))


@given(st.sampled_from(WAYS), st.sampled_from(SIZED), errors, people, st.integers(1, 4), st.sampled_from(ErrorMetric))
@LAWS
def test_the_price_of_an_error_buys_it_and_a_little_less_does_not(
    way: Mechanism, question: PlannerQuery, share: Fraction, n: int, queries: int, aim: ErrorMetric
) -> None:
    task, goal = asked(question, queries, aim), Goal(wide(question, share), False, None)
    price = solve_epsilon(way, task, goal, n)
    if price is None:  # one bit a person is too coarse, whatever ε
        assert way.predict_accuracy(task, Fraction(MAX_EPSILON), n).get(aim) > goal.amount
    else:
        assert way.predict_accuracy(task, price, n).get(aim) <= goal.amount
        less = goal.amount if way is not LOCAL_MECHANISM else goal.amount * Fraction(9, 10)
        assert way.predict_accuracy(task, price * Fraction(99, 100), n).get(aim) > less
        assert paid(way, task, price) <= price * (1 + Fraction(1, 10**9))


@given(st.sampled_from(WAYS), st.sampled_from(ALL), prices, people, st.integers(1, 4), st.sampled_from(ErrorMetric))
@LAWS
def test_an_error_that_an_epsilon_gives_costs_no_more_than_it(
    way: Mechanism, question: PlannerQuery, price: Fraction, n: int, queries: int, aim: ErrorMetric
) -> None:
    task = asked(question, queries, aim)
    found = way.predict_accuracy(task, price, n).get(aim)
    back = solve_epsilon(way, task, Goal(found, False, None), n) if found else Fraction(0)
    assert back is not None
    assert back <= round_up(price) * Fraction(1002, 1000)  # a unit of the fourth digit


@given(st.sampled_from(WAYS), st.sampled_from(SIZED), errors, prices, st.sampled_from(ErrorMetric))
@LAWS
def test_the_people_that_are_needed_are_enough_and_fewer_are_not(
    way: Mechanism, question: PlannerQuery, share: Fraction, price: Fraction, aim: ErrorMetric
) -> None:
    task, goal = asked(question, 1, aim), Goal(wide(question, share), False, None)
    n = solve_n(way, task, goal, price)
    assert n is not None
    assert way.predict_accuracy(task, price, n).get(aim) <= goal.amount
    fewer = (
        n - 1 if way is not LOCAL_MECHANISM else n * 2 // 3
    )  # the reports of some n fall better on their lattice than those of n + 1
    assert fewer < 1 or way.predict_accuracy(task, price, fewer).get(aim) > goal.amount


@given(st.sampled_from(WAYS), st.sampled_from(ALL), prices, people, st.integers(1, 3), st.sampled_from(ErrorMetric))
@LAWS
def test_more_privacy_more_questions_and_more_confidence_cost_accuracy(
    way: Mechanism, question: PlannerQuery, price: Fraction, n: int, queries: int, aim: ErrorMetric
) -> None:
    task = asked(question, queries, aim)
    start = way.predict_accuracy(task, price, n).get(aim)
    assert way.predict_accuracy(task, price / 2, n).get(aim) >= start
    assert way.predict_accuracy(replace(task, queries=queries + 1), price, n).get(aim) >= start
    assert way.predict_accuracy(replace(task, confidence=Fraction(99, 100)), price, n).get(aim) >= start


large = st.integers(1, MAX_EPSILON - 1)
PURE, APPROXIMATE = [CENTRAL_MECHANISMS[0], LOCAL_MECHANISM], [*CENTRAL_MECHANISMS[1:]]


@given(st.sampled_from(PURE), st.sampled_from(ALL), large, st.integers(1, 300), people, st.sampled_from(ErrorMetric))
@LAWS
def test_what_some_epsilon_reaches_a_plan_finds(
    way: Mechanism, question: PlannerQuery, price: int, queries: int, n: int, aim: ErrorMetric
) -> None:
    """Also where it is large and the questions are many."""
    assert found_by_a_plan(way, question, price, queries, n, aim, Fraction(0))


@given(st.sampled_from(APPROXIMATE), st.sampled_from([Sum(0, 7, whole=True), Sum(-5, 10)]), large, st.integers(1, 3))
@settings(LAWS, max_examples=15)
def test_and_so_with_a_delta(way: Mechanism, question: PlannerQuery, price: int, queries: int) -> None:
    assert found_by_a_plan(way, question, price, queries, 500, ErrorMetric.LARGEST, Fraction(1, 10**6))


def found_by_a_plan(
    way: Mechanism, question: PlannerQuery, price: int, queries: int, n: int, aim: ErrorMetric, delta: Fraction
) -> bool:
    """Whether a plan for the error that this ε gives costs no more than it; every row of it keeps what it says, and whatever
    is left out is left out for the reason that is given."""
    task = replace(asked(question, queries, aim), delta=delta)
    error = way.predict_accuracy(task, Fraction(price), n).get(aim) or Fraction(1, 10**9)
    kind: dict[str, Any] = {"rmse": error} if aim is ErrorMetric.RMSE else {"error": error, "each": aim is ErrorMetric.EACH}
    found = plan(question, delta=delta, n=n, queries=queries, **kind)
    for row in found.rows:
        assert (row.rmse if aim is ErrorMetric.RMSE else row.half_width) <= error * (1 + Fraction(1, 10**12))
    for left in (other for other in WAYS if other.name in dict(found.infeasible)):
        assert left.predict_accuracy(task, Fraction(MAX_EPSILON), n).get(aim) > error
        assert dict(found.infeasible)[left.name].startswith("even at ε = 1024 it is off by")
    costs = {row.mechanism: row.epsilon for row in found.rows}
    return costs[way.name] <= round_up(Fraction(price)) * Fraction(1002, 1000)


def test_a_search_that_leaps_over_its_end_is_noticed() -> None:
    """From 128 to 32,768 in one step, nothing being good past 1024: that is how an answer between was missed."""
    task, goal = asked(Sum(0, 5, whole=True), 1, ErrorMetric.LARGEST), Goal(Fraction(1, 2), False, None)
    discrete = CENTRAL_MECHANISMS[2]

    def good(price: float) -> bool:
        return price <= MAX_EPSILON and discrete.predict_accuracy(task, Fraction(price), None).largest <= goal.amount

    assert smallest_where(good) == inf
    assert solve_epsilon(discrete, task, goal, None) == pytest.approx(147.5, abs=0.1)


@given(st.sampled_from(ALL), large, st.integers(1, 300), people, st.booleans())
@LAWS
def test_every_price_has_a_plan(question: PlannerQuery, price: int, queries: int, n: int, each: bool) -> None:
    found = plan(question, epsilon=price, n=n, queries=queries, each=each)
    task = asked(question, queries, ErrorMetric.EACH if each else ErrorMetric.LARGEST)
    assert {row.mechanism for row in found.rows} == {way.name for way in PURE}
    for row in found.rows:
        (way,) = (way for way in PURE if way.name == row.mechanism)
        assert row.half_width == pytest.approx(float(way.predict_accuracy(task, Fraction(price), n).get(task.metric)))
    assert found.winner.mechanism in str(found)


@pytest.mark.parametrize("question", [Proportion(), Mean(0, 100)], ids=str)
def test_plans_go_there_and_back(question: PlannerQuery) -> None:
    error = wide(question, Fraction(3, 100))
    for row in plan(question, error=error, epsilon=Fraction(1, 2), delta=1e-6).rows:
        again = {r.mechanism: r for r in plan(question, epsilon=Fraction(1, 2), delta=1e-6, n=row.n).rows}[row.mechanism]
        assert again == row
        price = {r.mechanism: r for r in plan(question, error=error, delta=1e-6, n=row.n).rows}[row.mechanism].epsilon
        assert 0.4 <= price <= 0.5  # less will do where the half-width is a whole number of people


def test_more_people_make_shares_better_and_a_wrong_twin_would_be_noticed() -> None:
    def falls(widths: list[float]) -> bool:
        return all(later < earlier for earlier, later in pairwise(widths))

    for mechanism in range(4):
        rows = [
            sorted(plan(Proportion(), epsilon=1, delta=1e-6, n=n).rows, key=lambda r: r.mechanism)
            for n in (50, 200, 800, 3200)
        ]
        assert falls([row[mechanism].half_width for row in rows])
        assert not falls([row[mechanism].half_width * (row[mechanism].n or 1) for row in rows])  # as counts


# Facts of the texts


def test_sample_sizes_are_those_of_the_texts_but_for_the_lattice() -> None:
    for alpha, price in ((0.01, 0.1), (0.001, 0.5), (0.02, 0.05)):
        rows = {row.mechanism: row.n for row in plan(Proportion(), rmse=alpha, epsilon=price).rows}
        central, local = laplace_sample_size(alpha, price), response_sample_size(alpha, price)
        assert rows["Laplace"] == pytest.approx(central, rel=0.02)
        assert rows["randomised response"] == pytest.approx(local, rel=1e-3)


def test_half_the_error_needs_twice_the_people_centrally_and_four_times_as_many_locally() -> None:
    once, twice = (plan(Proportion(), rmse=alpha, epsilon=0.1) for alpha in (0.002, 0.001))
    growth = {a.mechanism: (b.n or 0) / (a.n or 1) for a, b in zip(once.rows, twice.rows, strict=True)}
    assert growth["Laplace"] == pytest.approx(2, rel=1e-3)
    assert growth["randomised response"] == pytest.approx(4, rel=1e-3)


def test_the_3143_counties_and_the_10000_names() -> None:
    counties = plan(Histogram(3143), epsilon=0.1, neighbours=Neighbours.REPLACE).winner
    assert counties.scale == 20
    assert counties.textbook == pytest.approx(20 * log(3143 / 0.05))
    assert laplace_expected_max(20, 3143) == pytest.approx(181.06, abs=0.005)
    names = plan(Histogram(10_000), epsilon=1).winner
    assert names.textbook == pytest.approx(12.206, abs=5e-4)
    assert names.half_width == 12  # whole, and covers for certain what the bound promises


def test_the_number_of_questions_from_which_gaussian_noise_wins() -> None:
    found = plan(Count(), epsilon=1, delta=1e-6)
    (crossing,) = found.crossovers
    assert crossing.at == gaussian_wins_from(1, 1e-6) == 6
    assert plan(Count(), epsilon=1, delta=1e-6, queries=crossing.at - 1).winner.mechanism == "Laplace"
    assert "Gaussian" in plan(Count(), epsilon=1, delta=1e-6, queries=crossing.at).winner.mechanism


@pytest.mark.parametrize("price", [1, 8, 20])
@pytest.mark.parametrize("question", [Count(), Histogram(10)], ids=str)
def test_what_is_said_of_more_questions_holds_for_each_number_of_them(question: PlannerQuery, price: int) -> None:
    """On whole numbers the two errors are equal again for some numbers of questions after the first that is won."""
    (crossing,) = plan(question, epsilon=price, delta=1e-6).crossovers
    end = int(re.findall(r"tried up to ([0-9]+)", crossing.message)[0])
    better = [int(found) for found in re.findall(r"better from ([0-9]+) on", crossing.message)]
    assert ("is never worse than" in crossing.message) is bool(better)
    assert "beats" in crossing.message or better[0] > crossing.at

    def true(at: int, strictly: int) -> bool:
        leads = {k: _lead(question, price, k) for k in range(1, end + 1)}
        wins = all(lead > 0 for k, lead in leads.items() if k >= strictly)
        return wins and leads[at] > 0 and all(lead >= 0 for k, lead in leads.items() if k >= at)

    assert true(crossing.at, *(better or [crossing.at]))
    if better:
        assert not true(crossing.at, crossing.at)  # it does not beat it from there on


def _lead(question: PlannerQuery, price: int, queries: int) -> float:
    task = asked(question, queries, ErrorMetric.LARGEST)
    laplace, gaussian = (way.predict_accuracy(task, Fraction(price), None).largest for way in CENTRAL_MECHANISMS[:2])
    return float(laplace - gaussian)


def test_the_number_of_people_from_which_randomised_response_is_usable() -> None:
    found = plan(Proportion(), error=0.05, n=200)
    (crossing,) = found.crossovers
    usable = plan(Proportion(), epsilon=found.epsilon, n=crossing.at).rows[-1]
    assert usable.mechanism == LOCAL_MECHANISM.name
    assert 0.045 < usable.half_width <= 0.05
    assert plan(Proportion(), epsilon=found.epsilon, n=crossing.at // 2).rows[-1].half_width > 0.05


# What is computed, computed again


@pytest.mark.parametrize(
    ("n", "h", "p", "q"), [(30, 7, 0.73, 0.27), (101, 0, 0.6, 0.4), (400, 150, 0.3, 0.07), (64, 64, 0.999, 0.001)]
)
def test_reports_stray_as_the_exact_law_says(n: int, h: int, p: float, q: float) -> None:
    law = np.convolve(binom.pmf(np.arange(h + 1), h, p), binom.pmf(np.arange(n - h + 1), n - h, q))
    off = np.abs(np.arange(n + 1) - (h * p + (n - h) * q))
    for tail in (0.3, 0.05, 1e-4):
        t = report_deviation_quantile(n, h, p, q, tail)
        assert law[off > t].sum() <= tail
        assert law[off > t - 1e-6].sum() > tail - 1e-12


def test_bounds_for_very_many_people_are_near_the_exact_law() -> None:
    exact = report_deviation_quantile(10**9, 5 * 10**8, 0.6, 0.4, 0.05)
    assert exact == pytest.approx(1.959964 * sqrt(0.24e9), rel=1e-4)
    assert exact <= report_deviation_quantile(10**9 + 2, 5 * 10**8 + 1, 0.6, 0.4, 0.05) <= 1.001 * exact
    assert report_deviation_quantile(10**4, 5000, 0.6, 0.4, 1e-12) >= 7.1 * sqrt(0.24e4)


@pytest.mark.parametrize("n", [65, 100, 257])
@pytest.mark.parametrize(("question", "price"), [(Count(), 1.0), (Count(), 3.0), (Histogram(5), 1.5)])
def test_no_number_of_yes_sayers_strays_further_than_planned(n: int, question: PlannerQuery, price: float) -> None:
    task = Task(question, Neighbours.ADD_REMOVE, 1, Fraction(0), Fraction(19, 20), ErrorMetric.EACH)
    answer = LOCAL_MECHANISM.build_noise(task, Fraction(price))
    worst = max(report_deviation_quantile(n, h, float(answer.truth), float(answer.other), 0.05) for h in range(n + 1))
    planned = LOCAL_MECHANISM.predict_accuracy(task, Fraction(price), n).each * (answer.truth - answer.other)
    assert worst <= planned <= worst + 1.0001


def test_root_mean_squares_are_those_of_the_lattice() -> None:
    k = np.arange(-4000, 4001)
    for scale in (Fraction(1, 3), Fraction(1), Fraction(40)):
        laplace = np.exp(-np.abs(k) / float(scale))
        gauss = np.exp(-((k / float(scale)) ** 2) / 2)
        for noise, law in ((Laplace(scale), laplace), (DiscreteGaussian(scale), gauss)):
            assert root_mean_square(noise, Fraction(1)) == pytest.approx(sqrt((k**2 * law).sum() / law.sum()), rel=1e-8)
        spread = np.random.default_rng(5).normal(0, float(scale), 400_000).round()
        assert root_mean_square(Gaussian(scale), Fraction(1)) == pytest.approx(spread.std(), rel=0.02)
    assert root_mean_square(Gaussian(Fraction(799, 100)), Fraction(1)) == pytest.approx(sqrt(7.99**2 + 1 / 12), rel=1e-8)


def test_exact_and_textbook_stand_side_by_side() -> None:
    row = {r.mechanism: r for r in plan(Count(), epsilon=Fraction(1, 10), delta=1e-6, n=10**4).rows}
    assert row["Laplace"].textbook == pytest.approx(10 * log(20))
    sigma = sqrt(2 * log(1.25e6)) * 10
    assert row["Gaussian"].textbook == pytest.approx(sigma * sqrt(2 * log(40)))
    assert row["Gaussian"].half_width < 0.8 * row["Gaussian"].textbook
    truth = float(row[LOCAL_MECHANISM.name].noise.truth)  # type: ignore[union-attr]
    assert row[LOCAL_MECHANISM.name].textbook == pytest.approx(sqrt(log(40) / 2 * 10**4) / (2 * truth - 1))
    assert {r.mechanism: r.textbook for r in plan(Count(), epsilon=2, delta=1e-6).rows}["Gaussian"] is None


def test_the_gaussian_is_priced_by_its_exact_curve() -> None:
    row = next(r for r in plan(Count(), epsilon=1, delta=1e-6, queries=1000).rows if r.mechanism == "Gaussian")
    assert row.scale == pytest.approx(133.596076731, rel=1e-9)
    assert gaussian_epsilon(sqrt(1000) / row.scale, 1e-6).upper <= 1 + 1e-12


def test_a_binomial_law_is_built_up_exactly() -> None:
    n = 50
    law = [comb(n, k) / 2**n for k in range(n + 1)]
    half = report_deviation_quantile(n, n, 0.5, 0.5, 0.05)
    assert (
        sum(law[k] for k in range(n + 1) if abs(k - 25) > half)
        <= 0.05
        < sum(law[k] for k in range(n + 1) if abs(k - 25) > half - 1e-6)
    )


def test_task_counts_what_comes_out() -> None:
    task = plan(Histogram(7), epsilon=1, queries=3).task
    assert task.answers == 21
    assert replace(task, queries=1).sensitivity.l1 == 1
