"""Reconstruction: more than 95% of a column without a budget; with one, no more than ε allows, and the ledger refuses."""

from fractions import Fraction
from functools import cache
from itertools import product
from math import exp

import numpy as np
import pytest

from discreet import Laplace
from discreet.lab.attacks import AttackResult, run
from discreet.lab.attacks.attack import max_guess_probability, noise_scale, open_testbed
from discreet.lab.attacks.reconstruction import FAILURE_PROBABILITY, Secret, decode, draw_secret, max_correct_guesses
from discreet.testing import seeded_bits
from tests.support.chance import binomial_tail, is_plausible

PEOPLE, QUERIES = 400, 2_000


@cache
def get_result() -> AttackResult:
    return run("reconstruction")


@cache
def secret(seed: int = 7) -> Secret:
    return draw_secret(PEOPLE, QUERIES, seeded_bits(seed))


def laplace_pmf(scale: float, k: int) -> float:
    a = exp(-1 / scale)
    return (1 - a) / (1 + a) * a ** abs(k)


def test_more_than_95_percent_without_a_budget() -> None:
    assert get_result().numbers["recovered_exact"] > 0.95
    assert get_result().numbers["recovered_without_budget"] > 0.95


@pytest.mark.parametrize("attack", ["with_discreet", "thinned", "by_name"])
def test_within_a_budget_no_more_is_recovered_than_epsilon_allows(attack: str) -> None:
    found = get_result().numbers
    assert found[f"recovered_{attack}"] * PEOPLE <= max_correct_guesses(PEOPLE, 1)


def test_a_mutant_without_a_budget_exceeds_the_bound() -> None:
    """A server that does not add up its costs gives answers one by one, and exceeds the bound."""
    assert get_result().numbers["recovered_without_budget"] * PEOPLE > max_correct_guesses(PEOPLE, 1)
    once = secret().attack(1, Laplace(1), seeded_bits(1))
    often = secret().attack(QUERIES, Laplace(1), seeded_bits(1))
    assert once <= max_correct_guesses(PEOPLE, 1) < often


def test_the_ledger_refuses_before_that() -> None:
    found = get_result().numbers
    assert found["refused"]
    assert found["answered_by_ledger"] == 20
    exactly = secret().attack(20, None, seeded_bits(1))  # even without noise so few counts do not reveal it
    assert exactly < 0.95 * PEOPLE


@pytest.mark.parametrize("epsilon", [Fraction(1, 4), Fraction(1), Fraction(3)])
@pytest.mark.parametrize("parts", [1, 50, QUERIES])
def test_the_bound_holds_however_the_budget_is_divided(epsilon: Fraction, parts: int) -> None:
    right = secret().attack(parts, Laplace(parts / epsilon), seeded_bits(11))
    assert right <= max_correct_guesses(PEOPLE, epsilon)


def test_the_query_by_name_reaches_its_exact_probability() -> None:
    """Each cell is one person and noise of scale 2/ε: independent guesses, each right with e^{ε/2}/(1+e^{ε/2})."""
    found = get_result().numbers
    right = round(found["recovered_by_name"] * PEOPLE)
    assert is_plausible(right, PEOPLE, max_guess_probability(Fraction(1, 2)))
    assert not is_plausible(right, PEOPLE, max_guess_probability(3))


def test_the_bound_is_reached_by_spending_all_on_one_person() -> None:
    with open_testbed([{"id": i, "sick": i % 2} for i in range(20)]) as testbed:
        scale = noise_scale(testbed.connect_in_memory(1), "SELECT COUNT(*) AS n FROM people WHERE sick = 1 AND id = 17", 1)
    assert scale == 1
    right_if_healthy = sum(laplace_pmf(1, k) for k in range(-800, 1))  # an answer of 0 or less
    assert right_if_healthy == pytest.approx(max_guess_probability(1), rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_no_attack_is_better_on_a_table_small_enough_to_try_everything(epsilon: float) -> None:
    """Three people, two overlapping counts at ε/2 each: the best guess about each, over every answer and every table."""
    answers = range(-60, 64)
    for person in range(3):
        right = 0.0
        for first, second in product(answers, answers):
            weight = [0.0, 0.0]
            for bits in product((0, 1), repeat=3):
                both = laplace_pmf(2 / epsilon, first - bits[0] - bits[1]) * laplace_pmf(
                    2 / epsilon, second - bits[1] - bits[2]
                )
                weight[bits[person]] += both / 8
            right += max(weight)
        assert 0.5 < right <= max_guess_probability(epsilon)


@pytest.mark.parametrize(("people", "epsilon"), [(400, 1), (100, Fraction(1, 4)), (30, 3)])
def test_the_largest_number_of_guesses_is_the_binomial_tail(people: int, epsilon: Fraction) -> None:
    k, p = max_correct_guesses(people, epsilon), Fraction(max_guess_probability(epsilon))
    assert binomial_tail(k, people, p) <= Fraction(FAILURE_PROBABILITY)
    assert k == 0 or binomial_tail(k - 1, people, p) > Fraction(FAILURE_PROBABILITY)


def test_decoding_solves_the_equations() -> None:
    """With one equation per person all bits are recovered; with none, nothing is."""
    bits = np.array([1, 0, 1, 1, 0])
    assert (decode(np.eye(5, dtype=np.int64), bits, 0.01) == bits).all()
    assert decode(np.zeros((3, 5), np.int64), np.zeros(3, np.int64), 0.01).sum() == 0
