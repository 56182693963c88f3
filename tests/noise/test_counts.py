"""Counts from exact coins: they fit their distribution, and a walk that is a little wrong does not."""

from collections.abc import Callable
from fractions import Fraction
from itertools import accumulate
from math import exp, lgamma, log

import numpy as np
import pytest

from discreet.errors import BadParameter
from discreet.noise import counts, poisson, truncated_negative_binomial
from discreet.testing import seeded_bits
from tests.support.goodness_of_fit import rejects

DRAWS = 100_000
EDGES = list(range(-1, 60))


def cdf_of(weight: Callable[[int], float], start: int) -> Callable[[int], float]:
    """The distribution function of P(k) ∝ weight(k), k ≥ start."""
    weights = [weight(k) if k >= start else 0.0 for k in range(2000)]
    sums = list(accumulate(weights))
    return lambda k: 0.0 if k < 0 else sums[k] / sums[-1]


def poisson_cdf(mean: float) -> Callable[[int], float]:
    return cdf_of(lambda k: exp(-mean + k * log(mean) - lgamma(k + 1)), 0)


def negative_binomial_cdf(eta: float, gamma: float) -> Callable[[int], float]:
    def weight(k: int) -> float:  # the product from j = 1 on: the factor eta at j = 0 is a constant, of either sign
        return exp(k * log(1 - gamma) + sum(log((j + eta) / (j + 1)) for j in range(1, k)))

    return cdf_of(weight, 1)


@pytest.mark.parametrize("mean", [Fraction(1, 10), Fraction(1, 2), Fraction(1), Fraction(17, 5), Fraction(20)], ids=float)
def test_poisson_has_its_distribution_and_no_other(mean: Fraction):
    draws = poisson(mean, DRAWS)
    assert not rejects(draws, poisson_cdf(float(mean)), EDGES)
    assert rejects(draws, poisson_cdf(1.15 * float(mean)), EDGES)


@pytest.mark.parametrize(
    ("eta", "gamma"),
    [("-1/2", "1/20"), ("0", "1/10"), ("1/3", "1/10"), ("1", "1/5"), ("3/2", "1/4"), ("3", "1/3")],
)
def test_negative_binomial_has_its_distribution_and_no_other(eta: str, gamma: str):
    shape, end = Fraction(eta), Fraction(gamma)
    draws = truncated_negative_binomial(shape, end, DRAWS)
    assert draws.min() == 1
    assert not rejects(draws, negative_binomial_cdf(float(shape), float(end)), EDGES)
    assert rejects(draws, negative_binomial_cdf(float(shape) + 0.2, float(end)), EDGES)
    assert rejects(draws, negative_binomial_cdf(float(shape), 1.2 * float(end)), EDGES)


def test_a_walk_that_is_not_started_again_is_noticed(monkeypatch: pytest.MonkeyPatch):
    def without_restart(end, climb, start, size, bits):
        out, walking, k = np.full(size, start), np.arange(size), start
        while walking.size:
            out[walking] = k
            walking = walking[~counts.bernoulli(end, walking.size, bits)]
            walking, k = walking[counts.bernoulli(climb(k), walking.size, bits)], k + 1
        return out

    monkeypatch.setattr(counts, "_walk", without_restart)
    assert rejects(poisson(Fraction(1, 2), DRAWS), poisson_cdf(0.5), EDGES)
    assert rejects(truncated_negative_binomial(0, Fraction(1, 10), DRAWS), negative_binomial_cdf(0, 0.1), EDGES)


def test_zero_is_kept_by_poisson_and_drawn_again_by_the_truncated_one(monkeypatch: pytest.MonkeyPatch):
    assert (poisson(Fraction(1, 10), 1000) == 0).any()
    assert poisson(0, 3).tolist() == [0, 0, 0]
    assert truncated_negative_binomial(2, Fraction(9, 10), 1000).min() == 1


def test_seeded_bits_decide_everything():
    for draw in (
        lambda bits: poisson(3, 50, bits),
        lambda bits: truncated_negative_binomial(Fraction(3, 2), 0.25, 50, bits),
    ):
        assert draw(seeded_bits(5)).tolist() == draw(seeded_bits(5)).tolist() != draw(seeded_bits(6)).tolist()


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("mean", lambda: poisson(-1, 1)),
        ("mean", lambda: poisson(10**9, 1)),
        ("size", lambda: poisson(1, -1)),
        ("eta", lambda: truncated_negative_binomial(-1, 0.5, 1)),
        ("gamma", lambda: truncated_negative_binomial(1, 0, 1)),
        ("gamma", lambda: truncated_negative_binomial(1, 1, 1)),
        ("gamma", lambda: truncated_negative_binomial(1, Fraction(1, 10**9), 1)),
    ],
)
def test_a_refusal_names_the_parameter(name: str, call: Callable[[], object]):
    with pytest.raises(BadParameter) as refused:
        call()
    assert refused.value.name == name
