"""Solving for ε and for n: there and back, monotone, and never missing what some ε reaches."""

import re
from dataclasses import replace
from fractions import Fraction
from itertools import islice, pairwise
from math import inf
from typing import Any

import pytest
from hypothesis import strategies as st

from discreet import Count, Histogram, Mean, Proportion, RandomizedResponse, Sum, epsilon, plan, pure
from discreet._numbers import smallest_where
from discreet.mechanisms import Laplace
from discreet.mechanisms.textbook_accuracy import gaussian_wins_from
from discreet.planner import PlannerQuery, mechanisms
from discreet.planner.mechanisms import CENTRAL_MECHANISMS, LOCAL_MECHANISM, LocalMechanism, Mechanism
from discreet.planner.search import round_up, solve_epsilon, solve_n
from discreet.planner.task import ErrorMetric, Goal, Task, is_real, resolve_neighbours
from discreet.query.calibrate import MAX_EPSILON
from tests.support.rounds import search_by_day

SIZED = [Proportion(), Mean(0, 100), Mean(-3, 5, whole=True)]
ALL: list[PlannerQuery] = [*SIZED, Count(), Sum(-5, 10), Sum(0, 7, whole=True), Histogram(9)]
errors = st.integers(1, 400).map(lambda thousandths: Fraction(thousandths, 1000))
costs = st.integers(1, 60).map(lambda tenths: Fraction(tenths, 10))
people = st.integers(20, 5000)
MECHANISMS: list[Mechanism] = [*CENTRAL_MECHANISMS, LOCAL_MECHANISM]


def error_of_share(query: PlannerQuery, share: Fraction) -> Fraction:
    """Return an error of about that share of what one person contributes."""
    return share * (query.upper - query.lower if isinstance(query, Mean | Sum) else 1)


def make_task(query: PlannerQuery, queries: int, metric: ErrorMetric) -> Task:
    return Task(query, resolve_neighbours(query, None), queries, Fraction(1, 10**6), Fraction(19, 20), metric)


def compute_cost(mechanism: Mechanism, task: Task, cost: Fraction) -> Fraction | float:
    """Return the ε of the noise as the accountant computes it, not the planner."""
    noise = mechanism.build_noise(task, cost)
    if isinstance(noise, RandomizedResponse):
        return pure(noise.event() * task.queries)
    event = noise.event(task.sensitivity, noise.grid if is_real(task.query) else 1)
    return pure(event) if isinstance(noise, Laplace) else float(epsilon(event, task.delta))


@search_by_day(
    12,
    30,
    st.sampled_from(MECHANISMS),
    st.sampled_from(SIZED),
    errors,
    people,
    st.integers(1, 4),
    st.sampled_from(ErrorMetric),
)
def test_the_epsilon_of_a_goal_reaches_it_and_a_little_less_does_not(
    mechanism: Mechanism, query: PlannerQuery, share: Fraction, n: int, queries: int, metric: ErrorMetric
) -> None:
    task, goal = make_task(query, queries, metric), Goal(error_of_share(query, share), False, None)
    cost = solve_epsilon(mechanism, task, goal, n)
    if cost is None:  # one bit per person is too coarse, whatever ε
        assert mechanism.predict_accuracy(task, Fraction(MAX_EPSILON), n).get(metric) > goal.amount
    else:
        assert mechanism.predict_accuracy(task, cost, n).get(metric) <= goal.amount
        less = goal.amount if mechanism is not LOCAL_MECHANISM else goal.amount * Fraction(9, 10)
        assert mechanism.predict_accuracy(task, cost * Fraction(99, 100), n).get(metric) > less
        assert compute_cost(mechanism, task, cost) <= cost * (1 + Fraction(1, 10**9))


@search_by_day(
    12, 30, st.sampled_from(MECHANISMS), st.sampled_from(ALL), costs, people, st.integers(1, 4), st.sampled_from(ErrorMetric)
)
def test_an_error_that_an_epsilon_gives_costs_no_more_than_it(
    mechanism: Mechanism, query: PlannerQuery, cost: Fraction, n: int, queries: int, metric: ErrorMetric
) -> None:
    task = make_task(query, queries, metric)
    found = mechanism.predict_accuracy(task, cost, n).get(metric)
    back = solve_epsilon(mechanism, task, Goal(found, False, None), n) if found else Fraction(0)
    assert back is not None
    assert back <= round_up(cost) * Fraction(1002, 1000)  # a unit of the fourth digit


def find_other_verdicts(query: PlannerQuery, cost: Fraction, n: int, queries: int) -> list[ErrorMetric]:
    """The metrics by which a goal just at the predicted error is not met, or one just below it is."""
    found = []
    for metric in ErrorMetric:
        task = make_task(query, queries, metric)
        error = LOCAL_MECHANISM.predict_accuracy(task, cost, n).get(metric)
        at, below = (LOCAL_MECHANISM.is_within(task, cost, n, each) for each in (error, error * (1 - Fraction(1, 10**12))))
        found += [metric] * (not at or below)
    return found


@search_by_day(12, 30, st.sampled_from(ALL), costs, people, st.integers(1, 4))
def test_randomised_response_is_within_what_it_predicts_and_no_less(
    query: PlannerQuery, cost: Fraction, n: int, queries: int
) -> None:
    assert find_other_verdicts(query, cost, n, queries) == []


def test_a_mutant_that_looks_at_one_true_answer_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    every, is_within = mechanisms._report_errors, LocalMechanism.is_within

    def look_at_one(self: LocalMechanism, *given: Any) -> bool:
        with monkeypatch.context() as patched:
            patched.setattr(mechanisms, "_report_errors", lambda *wanted: islice(every(*wanted), 1))
            return is_within(self, *given)

    monkeypatch.setattr(LocalMechanism, "is_within", look_at_one)
    assert any(find_other_verdicts(Histogram(9), Fraction(1), n, 1) for n in (30, 100, 1000))


@search_by_day(12, 30, st.sampled_from(MECHANISMS), st.sampled_from(SIZED), errors, costs, st.sampled_from(ErrorMetric))
def test_the_n_of_a_goal_is_enough_and_fewer_are_not(
    mechanism: Mechanism, query: PlannerQuery, share: Fraction, cost: Fraction, metric: ErrorMetric
) -> None:
    task, goal = make_task(query, 1, metric), Goal(error_of_share(query, share), False, None)
    n = solve_n(mechanism, task, goal, cost)
    assert n is not None
    assert mechanism.predict_accuracy(task, cost, n).get(metric) <= goal.amount
    fewer = (
        n - 1 if mechanism is not LOCAL_MECHANISM else n * 2 // 3
    )  # on their lattice the reports of some n have a smaller error than those of n + 1
    assert fewer < 1 or mechanism.predict_accuracy(task, cost, fewer).get(metric) > goal.amount


@search_by_day(
    12, 30, st.sampled_from(MECHANISMS), st.sampled_from(ALL), costs, people, st.integers(1, 3), st.sampled_from(ErrorMetric)
)
def test_less_epsilon_more_queries_and_more_confidence_mean_more_error(
    mechanism: Mechanism, query: PlannerQuery, cost: Fraction, n: int, queries: int, metric: ErrorMetric
) -> None:
    task = make_task(query, queries, metric)
    start = mechanism.predict_accuracy(task, cost, n).get(metric)
    assert mechanism.predict_accuracy(task, cost / 2, n).get(metric) >= start
    assert mechanism.predict_accuracy(replace(task, queries=queries + 1), cost, n).get(metric) >= start
    assert mechanism.predict_accuracy(replace(task, confidence=Fraction(99, 100)), cost, n).get(metric) >= start


large = st.integers(1, MAX_EPSILON - 1)
PURE, APPROXIMATE = [CENTRAL_MECHANISMS[0], LOCAL_MECHANISM], [*CENTRAL_MECHANISMS[1:]]


@search_by_day(
    12, 30, st.sampled_from(PURE), st.sampled_from(ALL), large, st.integers(1, 300), people, st.sampled_from(ErrorMetric)
)
def test_what_some_epsilon_reaches_a_plan_finds(
    mechanism: Mechanism, query: PlannerQuery, cost: int, queries: int, n: int, metric: ErrorMetric
) -> None:
    """Also where ε is large and the queries are many."""
    assert is_found_by_a_plan(mechanism, query, cost, queries, n, metric, Fraction(0))


@search_by_day(
    7, 15, st.sampled_from(APPROXIMATE), st.sampled_from([Sum(0, 7, whole=True), Sum(-5, 10)]), large, st.integers(1, 3)
)
def test_what_some_epsilon_reaches_with_a_delta_a_plan_finds(
    mechanism: Mechanism, query: PlannerQuery, cost: int, queries: int
) -> None:
    assert is_found_by_a_plan(mechanism, query, cost, queries, 500, ErrorMetric.LARGEST, Fraction(1, 10**6))


def is_found_by_a_plan(
    mechanism: Mechanism, query: PlannerQuery, cost: int, queries: int, n: int, metric: ErrorMetric, delta: Fraction
) -> bool:
    """Whether a plan for the error that this ε gives costs no more than this ε.

    Checks that every row is within the error, and that infeasible mechanisms are so for the stated reason.
    """
    task = replace(make_task(query, queries, metric), delta=delta)
    error = mechanism.predict_accuracy(task, Fraction(cost), n).get(metric) or Fraction(1, 10**9)
    kind: dict[str, Any] = (
        {"rmse": error} if metric is ErrorMetric.RMSE else {"error": error, "each": metric is ErrorMetric.EACH}
    )
    found = plan(query, delta=delta, n=n, queries=queries, **kind)
    for row in found.rows:
        assert (row.rmse if metric is ErrorMetric.RMSE else row.half_width) <= error * (1 + Fraction(1, 10**12))
    for each in (other for other in MECHANISMS if other.name in dict(found.infeasible)):
        assert each.predict_accuracy(task, Fraction(MAX_EPSILON), n).get(metric) > error
        assert re.fullmatch("its error is .* even at ε = 1024", dict(found.infeasible)[each.name])
    costs = {row.mechanism: row.epsilon for row in found.rows}
    return costs[mechanism.name] <= round_up(Fraction(cost)) * Fraction(1002, 1000)


def test_a_search_that_leaps_over_its_end_is_noticed() -> None:
    """From 128 to 32,768 in one step, with nothing good beyond 1024: so a value in between was missed."""
    task, goal = make_task(Sum(0, 5, whole=True), 1, ErrorMetric.LARGEST), Goal(Fraction(1, 2), False, None)
    discrete = CENTRAL_MECHANISMS[2]

    def good(cost: float) -> bool:
        return cost <= MAX_EPSILON and discrete.predict_accuracy(task, Fraction(cost), None).largest <= goal.amount

    assert smallest_where(good) == inf
    assert solve_epsilon(discrete, task, goal, None) == pytest.approx(147.5, abs=0.1)


@search_by_day(12, 30, st.sampled_from(ALL), large, st.integers(1, 300), people, st.booleans())
def test_every_epsilon_has_a_plan(query: PlannerQuery, cost: int, queries: int, n: int, each: bool) -> None:
    found = plan(query, epsilon=cost, n=n, queries=queries, each=each)
    task = make_task(query, queries, ErrorMetric.EACH if each else ErrorMetric.LARGEST)
    assert {row.mechanism for row in found.rows} == {mechanism.name for mechanism in PURE}
    for row in found.rows:
        (mechanism,) = (each for each in PURE if each.name == row.mechanism)
        assert row.half_width == pytest.approx(float(mechanism.predict_accuracy(task, Fraction(cost), n).get(task.metric)))
    assert found.winner.mechanism in str(found)


@pytest.mark.parametrize("query", [Proportion(), Mean(0, 100)], ids=str)
def test_plans_go_there_and_back(query: PlannerQuery) -> None:
    error = error_of_share(query, Fraction(3, 100))
    for row in plan(query, error=error, epsilon=Fraction(1, 2), delta=1e-6).rows:
        again = {r.mechanism: r for r in plan(query, epsilon=Fraction(1, 2), delta=1e-6, n=row.n).rows}[row.mechanism]
        assert again == row
        cost = {r.mechanism: r for r in plan(query, error=error, delta=1e-6, n=row.n).rows}[row.mechanism].epsilon
        assert 0.4 <= cost <= 0.5  # less is enough where the half-width is an integer


def test_the_error_of_a_proportion_falls_with_n_and_that_of_a_count_does_not() -> None:
    def falls(widths: list[float]) -> bool:
        return all(later < earlier for earlier, later in pairwise(widths))

    for mechanism in range(4):
        rows = [
            sorted(plan(Proportion(), epsilon=1, delta=1e-6, n=n).rows, key=lambda r: r.mechanism)
            for n in (50, 200, 800, 3200)
        ]
        assert falls([row[mechanism].half_width for row in rows])
        assert not falls([row[mechanism].half_width * (row[mechanism].n or 1) for row in rows])  # as counts


def test_the_number_of_queries_from_which_gaussian_noise_wins() -> None:
    found = plan(Count(), epsilon=1, delta=1e-6)
    (crossing,) = found.crossovers
    assert crossing.at == gaussian_wins_from(1, 1e-6) == 6
    assert plan(Count(), epsilon=1, delta=1e-6, queries=crossing.at - 1).winner.mechanism == "Laplace"
    assert "Gaussian" in plan(Count(), epsilon=1, delta=1e-6, queries=crossing.at).winner.mechanism


@pytest.mark.parametrize("cost", [1, 8, 20])
@pytest.mark.parametrize("query", [Count(), Histogram(10)], ids=str)
def test_the_message_about_more_queries_holds_for_each_number_of_them(query: PlannerQuery, cost: int) -> None:
    """On integers the two errors can be equal again for some numbers of queries after the first that Gaussian noise wins."""
    (crossing,) = plan(query, epsilon=cost, delta=1e-6).crossovers
    end = int(re.findall(r"tried up to ([0-9]+)", crossing.message)[0])
    better = [int(found) for found in re.findall(r"better from ([0-9]+) on", crossing.message)]
    assert ("is never worse than" in crossing.message) is bool(better)
    assert "beats" in crossing.message or better[0] > crossing.at

    def is_true(at: int, strictly: int) -> bool:
        leads = {k: _lead(query, cost, k) for k in range(1, end + 1)}
        wins = all(lead > 0 for k, lead in leads.items() if k >= strictly)
        return wins and leads[at] > 0 and all(lead >= 0 for k, lead in leads.items() if k >= at)

    assert is_true(crossing.at, *(better or [crossing.at]))
    if better:
        assert not is_true(crossing.at, crossing.at)  # it is not strictly better from there on


def _lead(query: PlannerQuery, cost: int, queries: int) -> float:
    task = make_task(query, queries, ErrorMetric.LARGEST)
    laplace, gaussian = (
        mechanism.predict_accuracy(task, Fraction(cost), None).largest for mechanism in CENTRAL_MECHANISMS[:2]
    )
    return float(laplace - gaussian)


def test_the_number_of_people_from_which_randomised_response_is_usable() -> None:
    found = plan(Proportion(), error=0.05, n=200)
    (crossing,) = found.crossovers
    usable = plan(Proportion(), epsilon=found.epsilon, n=crossing.at).rows[-1]
    assert usable.mechanism == LOCAL_MECHANISM.name
    assert 0.045 < usable.half_width <= 0.05
    assert plan(Proportion(), epsilon=found.epsilon, n=crossing.at // 2).rows[-1].half_width > 0.05
