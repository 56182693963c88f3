"""Differencing: certain without noise, little better than a coin with it."""

from fractions import Fraction
from functools import cache
from math import exp

import pytest

from discreet.lab.attacks import AttackResult, run
from discreet.lab.attacks.attack import max_guess_probability
from tests.support.chance import is_plausible


@cache
def get_result() -> AttackResult:
    return run("differencing")


def expected(epsilon: float) -> float:
    """The exact probability that the sign of the difference is right, summed over both noises."""
    a = exp(-epsilon / 2)
    noise = {k: (1 - a) / (1 + a) * a ** abs(k) for k in range(-400, 401)}
    below, total = {}, 0.0
    for k, p in noise.items():
        total += p
        below[k] = total
    return sum(p * below[k] for k, p in noise.items())  # P(second ≤ first): right if sick; by symmetry, also if not


def test_exact_counts_reveal_every_secret() -> None:
    assert get_result().numbers["known_without"] == 100


def test_simulations_agree_with_the_exact_probability() -> None:
    found = get_result().numbers
    assert found["right_expected"] == pytest.approx(expected(1), rel=1e-12)
    assert is_plausible(found["right"], found["rehearsals"], expected(1))
    assert not is_plausible(found["right"], found["rehearsals"], expected(1.5))  # a mutant with less noise is noticed
    assert not is_plausible(found["right"], found["rehearsals"], 0.5)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(4)])
def test_it_stays_below_what_epsilon_allows(epsilon: Fraction) -> None:
    found = run("differencing", epsilon=epsilon, rehearsals=10).numbers
    assert 0.5 < found["right_expected"] < found["right_at_most"] == max_guess_probability(epsilon) < 1


def test_the_ledger_refuses_the_third_query() -> None:
    assert get_result().numbers["refused"]
    assert "used up" in get_result().numbers["refusal"]
