"""Averaging: five hundred answers tell all, and one answer five hundred times tells one answer."""

from fractions import Fraction
from functools import cache
from math import exp, sqrt

import pytest

from discreet.lab.attacks import AttackResult, run
from discreet.lab.attacks.attack import collision_probability, noise_deviation, open_testbed, single_value
from discreet.lab.attacks.averaging import QUERY
from discreet.testing import seeded_bits


@cache
def played() -> AttackResult:
    return run("averaging")


def law(scale: float, k: int) -> float:
    """The noise of a count, by its definition."""
    a = exp(-1 / scale)
    return (1 - a) / (1 + a) * a ** abs(k)


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(1), Fraction(2), Fraction(20)])
def test_the_lattice_law_in_closed_form(scale: Fraction) -> None:
    ks = range(-2000, 2001)
    assert noise_deviation(scale) == pytest.approx(sqrt(sum(k * k * law(float(scale), k) for k in ks)), rel=1e-12)
    assert collision_probability(scale) == pytest.approx(sum(law(float(scale), k) ** 2 for k in ks), rel=1e-12)


def test_without_a_budget_the_secret_is_out() -> None:
    found = played().numbers
    assert found["learned"] == found["secret"]
    assert found["standard_error"] == pytest.approx(1.3569624860015785 / sqrt(500))
    assert abs(found["mean"] - found["secret"]) < 8 * found["standard_error"]  # beyond 8σ: 1e-15
    assert found["error_of_one"] == 3


def test_the_price_that_nobody_named() -> None:
    """On the integers, noise of scale 1 against a move of 1 loses exactly ±1: as 500 randomised responses do."""
    found = played().numbers
    assert found["pure_epsilon_spent"] == 500
    assert found["certified_epsilon_spent"] == pytest.approx(311.767604639710743, rel=1e-9)


def test_with_discreet_the_second_answer_is_the_first() -> None:
    found = played().numbers
    assert found["different_answers"] == 1
    assert found["refused"]
    assert "ε = 0 remains" in found["refusal"]


def test_thinning_buys_nothing() -> None:
    found = played().numbers
    assert found["standard_error_if_thinned"] > 20 * found["deviation_of_one"]


def test_who_pays_for_fresh_noise_gets_it() -> None:
    """The wrong twin of a budget is one that is never used up: then answers differ, and their mean is the secret."""
    with open_testbed([{"id": i, "sick": int(i < 9)} for i in range(20)]) as built:
        session, source = built.connect_in_memory(300), seeded_bits(3)
        heard = [single_value(session.ask(QUERY, epsilon=1, fresh=True, bits=source)) for _ in range(300)]
        repeated = {single_value(session.ask(QUERY, epsilon=1, bits=source)) for _ in range(5)}
    assert len(set(heard)) > 3
    assert round(sum(heard) / len(heard)) == 9  # 0.5 is more than six standard errors
    assert len(repeated) == 1
    assert session.account.budget.remaining == 0
