"""Uniform integers and coins have exactly their distribution."""

from fractions import Fraction

import numpy as np
import pytest

from discreet import noise
from tests.support.distributions import coin_cdf, uniform_cdf
from tests.support.goodness_of_fit import rejects

DRAWS = 10**6


WRONG = Fraction(51, 50)


BOUNDS = [2, 3, 5, 6, 7, 10, 16, 17, 100, 255, 256, 1000, 1023, 10**6, 3**20, 2**40, 2**62, 2**62 + 2**61, 2**63 - 1, 2**63]


@pytest.mark.parametrize("bound", BOUNDS)
def test_uniform_below(bound: int) -> None:
    draws = noise.uniform_below(bound, DRAWS)
    edges = sorted({*range(min(bound, 40)), *(bound * j // 64 for j in range(1, 64)), bound - 1})
    assert not rejects(draws, uniform_cdf(Fraction(bound)), edges)
    assert rejects(draws, uniform_cdf(Fraction(bound) * WRONG + 1), edges)


CHANCES = [Fraction(k, 1000) for k in (1, 5, 10, 20, 50, 100, 150, 200, 250, 333, 400, 500, 600, 666, 750, 900, 990)] + [
    Fraction(1, 3), Fraction(2**64 - 1, 2**65), Fraction(1, 7**30) + Fraction(1, 2)
]  # fmt: skip


@pytest.mark.parametrize("p", CHANCES, ids=float)
def test_bernoulli(p: Fraction) -> None:
    coins = noise.bernoulli(p, DRAWS).astype(np.int64)
    assert not rejects(coins, coin_cdf(float)(p), [-1, 0, 1])
    if p >= Fraction(2, 5):  # below, 10⁶ draws cannot reject a coin 2% off for certain
        assert rejects(coins, coin_cdf(float)(p / WRONG), [-1, 0, 1])


@pytest.mark.parametrize("k", range(1, 21))
def test_bernoulli_exp(k: int) -> None:
    x = Fraction(k * k, 50)
    coins = noise.bernoulli_exp(x, DRAWS).astype(np.int64)
    cdf_at = coin_cdf(lambda x: float(np.exp(-float(x))))
    assert not rejects(coins, cdf_at(x), [-1, 0, 1])
    if 0.9 < x < 2.5:  # outside, 10⁶ draws cannot reject an x 2% off for certain
        assert rejects(coins, cdf_at(x * WRONG), [-1, 0, 1])
