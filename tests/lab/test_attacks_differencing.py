"""Differencing: certain without noise, hardly better than a coin with it."""

from fractions import Fraction
from functools import cache
from math import exp

import pytest

from discreet.lab.attacks import AttackResult, run
from discreet.lab.attacks.attack import max_guess_probability
from tests.lab.chance import plausible


@cache
def played() -> AttackResult:
    return run("differencing")


def expected(epsilon: float) -> float:
    """The exact chance that the sign of the difference is right, summed over both noises."""
    a = exp(-epsilon / 2)
    noise = {k: (1 - a) / (1 + a) * a ** abs(k) for k in range(-400, 401)}
    below, total = {}, 0.0
    for k, p in noise.items():
        total += p
        below[k] = total
    return sum(p * below[k] for k, p in noise.items())  # P(second ≤ first): right about the sick; by symmetry, about all


def test_exact_counts_give_everybody_away() -> None:
    assert played().numbers["known_without"] == 100


def test_the_rehearsals_agree_with_the_exact_chance() -> None:
    found = played().numbers
    assert found["right_expected"] == pytest.approx(expected(1), rel=1e-12)
    assert plausible(found["right"], found["rehearsals"], expected(1))
    assert not plausible(found["right"], found["rehearsals"], expected(1.5))  # a twin with less noise shows
    assert not plausible(found["right"], found["rehearsals"], 0.5)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(4)])
def test_it_stays_below_what_epsilon_allows(epsilon: Fraction) -> None:
    found = run("differencing", epsilon=epsilon, rehearsals=10).numbers
    assert 0.5 < found["right_expected"] < found["right_at_most"] == max_guess_probability(epsilon) < 1


def test_the_ledger_refuses_the_third_question() -> None:
    assert played().numbers["refused"]
    assert "used up" in played().numbers["refusal"]
