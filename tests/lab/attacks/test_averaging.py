"""Averaging: 500 fresh answers reveal the secret, and one recorded answer 500 times does not."""

from fractions import Fraction
from functools import cache
from math import exp, sqrt

import pytest

from discreet.lab.attacks import AttackResult, run
from discreet.lab.attacks.attack import collision_probability, noise_deviation, open_testbed, single_value
from discreet.lab.attacks.averaging import QUERY
from discreet.testing import seeded_bits


@cache
def get_result() -> AttackResult:
    return run("averaging")


def laplace_pmf(scale: float, k: int) -> float:
    """The distribution of the noise, by its definition."""
    a = exp(-1 / scale)
    return (1 - a) / (1 + a) * a ** abs(k)


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(1), Fraction(2), Fraction(20)])
def test_deviation_and_collision_probability_in_closed_form(scale: Fraction) -> None:
    ks = range(-2000, 2001)
    assert noise_deviation(scale) == pytest.approx(sqrt(sum(k * k * laplace_pmf(float(scale), k) for k in ks)), rel=1e-12)
    assert collision_probability(scale) == pytest.approx(sum(laplace_pmf(float(scale), k) ** 2 for k in ks), rel=1e-12)


def test_without_a_budget_the_mean_is_the_secret() -> None:
    found = get_result().numbers
    assert found["learned"] == found["secret"]
    assert found["standard_error"] == pytest.approx(1.3569624860015785 / sqrt(500))
    assert abs(found["mean"] - found["secret"]) < 8 * found["standard_error"]  # beyond 8σ: 1e-15
    assert found["error_of_one"] == 3


def test_the_cost_without_a_budget() -> None:
    """The privacy loss of integer noise of scale 1 at sensitivity 1 is exactly ±1: as that of randomised response."""
    found = get_result().numbers
    assert found["pure_epsilon_spent"] == 500
    assert found["certified_epsilon_spent"] == pytest.approx(311.767604639710743, rel=1e-9)


def test_with_discreet_a_repeated_query_returns_the_recorded_answer() -> None:
    found = get_result().numbers
    assert found["different_answers"] == 1
    assert found["refused"]
    assert "ε = 0 remains" in found["refusal"]


def test_dividing_the_budget_does_not_help() -> None:
    found = get_result().numbers
    assert found["standard_error_if_thinned"] > 20 * found["deviation_of_one"]


def test_a_budget_for_fresh_noise_returns_different_answers() -> None:
    """The mutant is a budget that is never used up: then answers differ, and their mean is the secret."""
    with open_testbed([{"id": i, "sick": int(i < 9)} for i in range(20)]) as testbed:
        session, source = testbed.connect_in_memory(300), seeded_bits(3)
        fresh = [single_value(session.ask(QUERY, epsilon=1, fresh=True, bits=source)) for _ in range(300)]
        repeated = {single_value(session.ask(QUERY, epsilon=1, bits=source)) for _ in range(5)}
    assert len(set(fresh)) > 3
    assert round(sum(fresh) / len(fresh)) == 9  # 0.5 is more than six standard errors
    assert len(repeated) == 1
    assert session.account.budget.remaining == 0
