"""The planner agrees with simulation, for every question and every mechanism, and the simulation would notice if not."""

from dataclasses import replace
from functools import cache
from math import log
from typing import Any

import pytest

from discreet import Gaussian, Laplace, Mean, Plan, RandomizedResponse, Sum, plan
from discreet.testing import seeded_bits
from tests.planner.simulation import QUESTIONS, broken, errors_of, promise_of

MECHANISMS = ("Laplace", "Gaussian", "discrete Gaussian", "randomised response")
CONFIDENCE = 0.95


@cache
def planned(name: str, queries: int) -> Plan:
    """300 people, whose share of yes-sayers is on a ladder; or 60, of whom every number is tried."""
    n, epsilon = (300, 1) if queries == 1 else (60, 2)
    return plan(QUESTIONS[name], epsilon=epsilon, delta=1e-6, n=n, queries=queries, confidence=CONFIDENCE)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("queries", [1, 3])
@pytest.mark.parametrize("name", QUESTIONS)
def test_errors_are_as_promised(name: str, queries: int, mechanism: str) -> None:
    question = QUESTIONS[name]
    (row,) = (row for row in planned(name, queries).rows if row.mechanism == mechanism)
    errors = errors_of(row, question, queries, seeded_bits(8000 + queries))
    assert not [*broken(promise_of(row, question, CONFIDENCE), errors)]


SOLVED = [(name, mechanism) for name in ("count", "mean") for mechanism in MECHANISMS]
SOLVED += [("histogram", mechanism) for mechanism in MECHANISMS[:3]]


@pytest.mark.parametrize("goal", [{"error": "5%"}, {"rmse": "3%"}, {"error": "5%", "each": True}], ids=str)
@pytest.mark.parametrize(("name", "mechanism"), SOLVED)
def test_the_people_that_it_asks_for_are_enough(name: str, mechanism: str, goal: dict[str, Any]) -> None:
    question = QUESTIONS[name]
    found = plan(question, epsilon=3, delta=1e-6, confidence=CONFIDENCE, **goal)
    (row,) = (row for row in found.rows if row.mechanism == mechanism)
    promise = promise_of(row, question, CONFIDENCE)
    errors = errors_of(row, question, 1, seeded_bits(8100))
    assert not [*broken(promise, errors[:, :1] if "each" in goal else errors)]


def test_the_quantile_of_continuous_laplace_noise_is_noticed() -> None:
    (row, *_) = planned("count", 1).rows
    assert isinstance(row.noise, Laplace)
    continuous = row.scale * log(1 / (1 - CONFIDENCE))  # 2.996 where the lattice needs 3
    wrong = replace(promise_of(row, QUESTIONS["count"], CONFIDENCE), each=continuous)
    assert "each: the half-width is too small" in [*broken(wrong, errors_of(row, QUESTIONS["count"], 1, seeded_bits(8001)))]


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("factor", [0.95, 1.05])
def test_noise_that_is_five_per_cent_off_is_noticed(name: str, factor: float) -> None:
    (row,) = (row for row in planned(name, 1).rows if row.mechanism == "Gaussian")
    twin = Gaussian(float(row.noise.sigma) * factor)  # type: ignore[union-attr]
    promise = promise_of(row, QUESTIONS[name], CONFIDENCE)
    assert "rmse" in [*broken(promise, errors_of(row, QUESTIONS[name], 1, seeded_bits(8200), noise=twin))]


@pytest.mark.parametrize("name", ["count", "proportion", "mean", "histogram"])
def test_answers_more_or_less_honest_than_planned_are_noticed(name: str) -> None:
    (row,) = (row for row in planned(name, 1).rows if isinstance(row.noise, RandomizedResponse))
    twin = RandomizedResponse.for_epsilon(0.85, row.noise.choices)  # type: ignore[union-attr]
    question = QUESTIONS[name]
    promise = promise_of(row, question, CONFIDENCE)
    assert [*broken(promise, errors_of(row, question, 1, seeded_bits(8300), noise=twin))]
    if isinstance(question, Sum | Mean):
        assert [*broken(replace(promise, rmse=1.06 * promise.rmse), errors_of(row, question, 1, seeded_bits(8300)))]
