"""Randomized response, as the textbooks state it, and where they are wrong."""

from fractions import Fraction
from math import exp, log, sqrt

import numpy as np
import pytest

from discreet import (
    BadValues,
    RandomizedResponse,
    pure,
)
from discreet.mechanisms import textbook_accuracy
from tests.support.distributions import coin_cdf
from tests.support.goodness_of_fit import rejects

SIGMAS = 7.5  # two-sided false alarm 6e-14 for each comparison


def test_randomized_response_truth_two_thirds_is_ln_2() -> None:
    coin = RandomizedResponse(Fraction(2, 3))
    assert coin.epsilon == pytest.approx(log(2), rel=1e-15)
    assert coin.epsilon >= log(2)
    answers = np.asarray(coin.release(np.ones(300_000, np.int64)))
    assert not rejects(answers, coin_cdf(float)(Fraction(2, 3)), [-1, 0, 1])
    assert rejects(answers, coin_cdf(float)(Fraction(2, 3) * Fraction(49, 50)), [-1, 0, 1])


@pytest.mark.parametrize("epsilon", [0.1, 1, 3])
@pytest.mark.parametrize("choices", [2, 5])
def test_randomized_response_general(epsilon: float, choices: int) -> None:
    m = RandomizedResponse.for_epsilon(epsilon, choices)
    assert float(m.truth) == pytest.approx(exp(epsilon) / (exp(epsilon) + choices - 1), rel=1e-14)
    assert m.epsilon == pytest.approx(epsilon, rel=1e-14)
    assert pure(m.event()) <= epsilon * (1 + 1e-15)
    answers = np.asarray(m.release(np.full(300_000, 1)))
    for k in range(choices):
        share = m.truth if k == 1 else m.other
        assert not rejects((answers == k).astype(np.int64), coin_cdf(float)(share), [-1, 0, 1])


@pytest.mark.parametrize("epsilon", [0.5, 1, 2])
def test_randomized_response_estimate_is_unbiased_with_stated_deviation(epsilon: float) -> None:
    n, runs, m = 4000, 400, RandomizedResponse.for_epsilon(epsilon)
    assert m.standard_deviation(n) == pytest.approx(exp(epsilon / 2) / (exp(epsilon) - 1) * sqrt(n), rel=1e-12)
    truth = np.repeat([1, 0], [1300, n - 1300])
    estimates = np.array([m.estimate(m.release(truth))[1] for _ in range(runs)])
    error = m.standard_deviation(n) / sqrt(runs)
    assert abs(estimates.mean() - 1300) < SIGMAS * error
    assert abs(estimates.std() / m.standard_deviation(n) - 1) < SIGMAS / sqrt(2 * runs)


def test_randomized_response_tail_of_s4() -> None:
    epsilon, n, t = 1.0, 500, 0.8
    m = RandomizedResponse.for_epsilon(epsilon)
    reach = t * (exp(epsilon) + 1) / (exp(epsilon) - 1) * sqrt(n)
    truth = np.repeat([1, 0], [200, 300])
    misses = sum(abs(m.estimate(m.release(truth))[1] - 200) >= reach for _ in range(400))
    assert misses / 400 <= textbook_accuracy.response_tail(t)
    assert m.error(1 - textbook_accuracy.response_tail(1.0), n) == pytest.approx(
        (exp(1) + 1) / (exp(1) - 1) * sqrt(n), rel=1e-9
    )


@pytest.mark.parametrize("values", [[0.5], ["yes"], [2], [-1], [None], [[0], [1, 0]], [float("nan")], None])
def test_randomized_response_refuses_what_is_no_answer(values) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(BadValues):
        RandomizedResponse.for_epsilon(1).release(values)


def test_erratum_7_the_flipped_answer_is_one_minus_phi_of_x() -> None:
    """φ(1 − x) as printed makes no sense for records that are not bits; with 1 − φ(x) a predicate on anything works."""
    m = RandomizedResponse.for_epsilon(1, predicate=lambda name: name.startswith("a"))
    answers = m.release(["anna", "bob"] * 20_000)
    assert set(answers) == {0, 1}
    assert np.mean(answers[::2]) > 0.7
    assert np.mean(answers[1::2]) < 0.3


def test_erratum_7_remainders_of_the_appendix() -> None:
    """1/(e^x − 1) − 1/x → −1/2 and 1/(1 − e^-x) − 1/x → 1/2: O(1), not O(x²); and e^x > 1 + x is an equality at 0."""
    x = 1e-4
    assert 1 / np.expm1(x) - 1 / x == pytest.approx(-0.5, abs=1e-4)
    assert -1 / np.expm1(-x) - 1 / x == pytest.approx(0.5, abs=1e-4)
    assert exp(0) == 1 + 0


def test_one_record_with_a_predicate() -> None:
    coin = RandomizedResponse(Fraction(3, 4), predicate=lambda age: age >= 18)
    assert coin.release(30) in (0, 1)
    assert coin.release(np.int64(30)) in (0, 1)
    assert coin.release(np.array(30)) in (0, 1)
    assert len(coin.release([30, 4])) == len(coin.release(np.array([30, 4]))) == len(coin.release({30, 4})) == 2
    text = RandomizedResponse(Fraction(3, 4), predicate=lambda name: len(name) > 3)
    assert text.release("Anna") in (0, 1)
    assert text.release({"name": "Anna"}) in (0, 1)
    with pytest.raises(BadValues):
        RandomizedResponse(Fraction(3, 4), predicate=lambda age: "yes").release(30)
