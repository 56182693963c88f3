"""Reconstruction: more than 95% of a column without a budget; with one, no more than ε allows, and the ledger says no."""

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
from tests.lab.chance import beyond, plausible

PEOPLE, QUESTIONS = 400, 2_000


@cache
def played() -> AttackResult:
    return run("reconstruction")


@cache
def secret(seed: int = 7) -> Secret:
    return draw_secret(PEOPLE, QUESTIONS, seeded_bits(seed))


def law(scale: float, k: int) -> float:
    a = exp(-1 / scale)
    return (1 - a) / (1 + a) * a ** abs(k)


def test_more_than_95_percent_without_a_budget() -> None:
    assert played().numbers["recovered_exact"] > 0.95
    assert played().numbers["recovered_without_budget"] > 0.95


@pytest.mark.parametrize("way", ["with_discreet", "thinned", "by_name"])
def test_at_most_chance_and_what_epsilon_allows_from_ours(way: str) -> None:
    found = played().numbers
    assert found[f"recovered_{way}"] * PEOPLE <= max_correct_guesses(PEOPLE, 1)


def test_the_same_law_finds_the_wrong_twin() -> None:
    """A server that forgets what it spent gives the same answers one by one, and breaks the bound."""
    assert played().numbers["recovered_without_budget"] * PEOPLE > max_correct_guesses(PEOPLE, 1)
    once = secret().attack(1, Laplace(1), seeded_bits(1))
    often = secret().attack(QUESTIONS, Laplace(1), seeded_bits(1))
    assert once <= max_correct_guesses(PEOPLE, 1) < often


def test_the_ledger_refuses_before_that() -> None:
    found = played().numbers
    assert found["refused"]
    assert found["answered_by_ledger"] == 20
    exactly = secret().attack(20, None, seeded_bits(1))  # even without any noise so few counts do not tell
    assert exactly < 0.95 * PEOPLE


@pytest.mark.parametrize("epsilon", [Fraction(1, 4), Fraction(1), Fraction(3)])
@pytest.mark.parametrize("parts", [1, 50, QUESTIONS])
def test_however_the_budget_is_divided(epsilon: Fraction, parts: int) -> None:
    right = secret().attack(parts, Laplace(parts / epsilon), seeded_bits(11))
    assert right <= max_correct_guesses(PEOPLE, epsilon)


def test_the_question_by_name_reaches_its_exact_chance() -> None:
    """Each cell is one person and noise of scale 2/ε: independent guesses, each right with e^{ε/2}/(1+e^{ε/2})."""
    found = played().numbers
    right = round(found["recovered_by_name"] * PEOPLE)
    assert plausible(right, PEOPLE, max_guess_probability(Fraction(1, 2)))
    assert not plausible(right, PEOPLE, max_guess_probability(3))


def test_the_bound_is_reached_by_spending_all_on_one_person() -> None:
    with open_testbed([{"id": i, "sick": i % 2} for i in range(20)]) as built:
        scale = noise_scale(built.connect_in_memory(1), "SELECT COUNT(*) AS n FROM people WHERE sick = 1 AND id = 17", 1)
    assert scale == 1
    heard_healthy = sum(law(1, k) for k in range(-800, 1))  # 0 or less, about somebody who is
    assert heard_healthy == pytest.approx(max_guess_probability(1), rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_nobody_can_do_better_on_a_table_small_enough_to_try_everything(epsilon: float) -> None:
    """Three people, two overlapping counts at ε/2 each: the best guess about each, over every answer and every table."""
    heard = range(-60, 64)
    for person in range(3):
        right = 0.0
        for first, second in product(heard, heard):
            weight = [0.0, 0.0]
            for bits in product((0, 1), repeat=3):
                both = law(2 / epsilon, first - bits[0] - bits[1]) * law(2 / epsilon, second - bits[1] - bits[2])
                weight[bits[person]] += both / 8
            right += max(weight)
        assert 0.5 < right <= max_guess_probability(epsilon)


@pytest.mark.parametrize(("people", "epsilon"), [(400, 1), (100, Fraction(1, 4)), (30, 3)])
def test_right_at_most_is_the_binomial_tail(people: int, epsilon: Fraction) -> None:
    k, p = max_correct_guesses(people, epsilon), Fraction(max_guess_probability(epsilon))
    assert beyond(k, people, p) <= Fraction(FAILURE_PROBABILITY)
    assert k == 0 or beyond(k - 1, people, p) > Fraction(FAILURE_PROBABILITY)


def test_decoding_knows_what_it_was_told() -> None:
    """With no equation about somebody there is nothing to say; with one each, everything."""
    bits = np.array([1, 0, 1, 1, 0])
    assert (decode(np.eye(5, dtype=np.int64), bits, 0.01) == bits).all()
    assert decode(np.zeros((3, 5), np.int64), np.zeros(3, np.int64), 0.01).sum() == 0
