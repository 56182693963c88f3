"""Every sampler draws its law: 10⁶ draws at 20 parameters, and the same evidence refutes a law 2% off."""

from fractions import Fraction

import numpy as np
import pytest

from discreet import noise
from tests.laws.evidence import edges_of, refuted
from tests.laws.laws import NOISES, SCALES, Variate, binomial_cdf, coin_cdf, uniform_cdf

DRAWS = 10**6
WRONG = Fraction(51, 50)


@pytest.mark.parametrize("scale", SCALES, ids=float)
@pytest.mark.parametrize("variate", NOISES, ids=lambda v: v.name)
def test_noise_has_its_law_and_no_other(variate: Variate, scale: Fraction) -> None:
    draws = variate.draw(scale, DRAWS, None)
    edges = edges_of(variate.spread(scale))
    assert not refuted(draws, variate.cdf(scale), edges)
    if scale >= 1:
        assert refuted(draws, variate.cdf(scale * WRONG), edges)
        assert refuted(draws, variate.cdf(scale / WRONG), edges)


@pytest.mark.parametrize("variate", NOISES[1:], ids=lambda v: v.name)
@pytest.mark.parametrize("scale", [Fraction(1), Fraction(7), Fraction(1 << 20)], ids=float)
def test_successive_draws_and_low_bits_are_independent(variate: Variate, scale: Fraction) -> None:
    """Sums of two successive draws have the variance of independent ones (both halves of a Box–Muller pair included)."""
    draws = variate.draw(scale, DRAWS, None)
    half = draws.size // 2
    for a, b in ((draws[::2], draws[1::2]), (draws[:half], draws[half:])):
        agree = np.count_nonzero((a > 0) & (b > 0)) + np.count_nonzero((a < 0) & (b < 0))
        differ = np.count_nonzero((a > 0) & (b < 0)) + np.count_nonzero((a < 0) & (b > 0))
        coins = np.repeat([1, 0], [agree, differ])
        assert not refuted(coins, coin_cdf(float)(Fraction(1, 2)), [-1, 0, 1])


BOUNDS = [2, 3, 5, 6, 7, 10, 16, 17, 100, 255, 256, 1000, 1023, 10**6, 3**20, 2**40, 2**62, 2**62 + 2**61, 2**63 - 1, 2**63]


@pytest.mark.parametrize("bound", BOUNDS)
def test_uniform_below(bound: int) -> None:
    draws = noise.uniform_below(bound, DRAWS)
    edges = sorted({*range(min(bound, 40)), *(bound * j // 64 for j in range(1, 64)), bound - 1})
    assert not refuted(draws, uniform_cdf(Fraction(bound)), edges)
    assert refuted(draws, uniform_cdf(Fraction(bound) * WRONG + 1), edges)


CHANCES = [Fraction(k, 1000) for k in (1, 5, 10, 20, 50, 100, 150, 200, 250, 333, 400, 500, 600, 666, 750, 900, 990)] + [
    Fraction(1, 3), Fraction(2**64 - 1, 2**65), Fraction(1, 7**30) + Fraction(1, 2)
]  # fmt: skip


@pytest.mark.parametrize("p", CHANCES, ids=float)
def test_bernoulli(p: Fraction) -> None:
    coins = noise.bernoulli(p, DRAWS).astype(np.int64)
    assert not refuted(coins, coin_cdf(float)(p), [-1, 0, 1])
    if p >= Fraction(2, 5):  # below, 10⁶ draws cannot refute a coin 2% off for certain
        assert refuted(coins, coin_cdf(float)(p / WRONG), [-1, 0, 1])


@pytest.mark.parametrize("k", range(1, 21))
def test_bernoulli_exp(k: int) -> None:
    x = Fraction(k * k, 50)
    coins = noise.bernoulli_exp(x, DRAWS).astype(np.int64)
    law = coin_cdf(lambda x: float(np.exp(-float(x))))
    assert not refuted(coins, law(x), [-1, 0, 1])
    if 0.9 < x < 2.5:  # outside, 10⁶ draws cannot refute an x 2% off for certain
        assert refuted(coins, law(x * WRONG), [-1, 0, 1])


COINS = [0, 1, 2, 3, 4, 5, 7, 8, 16, 33, 64, 100, 101, 500, 1000, 1999, 10**4, 10**5 + 1, 10**6, 2**24]


@pytest.mark.parametrize("n", COINS)
def test_binomial(n: int) -> None:
    draws = noise.binomial(n, DRAWS)
    edges = [n // 2 + edge for edge in edges_of(max(1.0, n**0.5 / 2))]
    assert not refuted(draws, binomial_cdf(Fraction(n)), edges)
    if n >= 100:  # a scale √n/2 that is 2% off: the same middle, 4% more coins
        wider = binomial_cdf(Fraction(n + n * 4 // 200 * 2))
        assert refuted(
            draws - n // 2 + (n + n * 4 // 200 * 2) // 2, wider, [e - n // 2 + (n + n * 4 // 200 * 2) // 2 for e in edges]
        )


@pytest.mark.parametrize("race", noise.SelectionRule)
@pytest.mark.parametrize("draws", [20_000, pytest.param(10**6, marks=pytest.mark.nightly)])
def test_selection(race: noise.SelectionRule, draws: int) -> None:
    """Three candidates, brute force: P(i) ∝ e^{x_i}, and permute-and-flip summed over all orders."""
    scores, rate = [0, 3, 4], Fraction(1, 2)
    wins = np.array([noise.select(scores, rate, race) for _ in range(draws)], np.int64)
    right, wrong = (_selection_law(scores, float(r), race) for r in (rate, rate * Fraction(5, 4)))
    assert not refuted(wins, right, [0, 1, 2])
    assert refuted(wins, wrong, [0, 1, 2])


def _selection_law(scores: list[int], rate: float, race: noise.SelectionRule):  # type: ignore[no-untyped-def]
    weights = np.exp(rate * (np.array(scores) - max(scores)))
    if race is noise.SelectionRule.EXPONENTIAL:
        chances = weights / weights.sum()
    else:
        from itertools import permutations

        chances = np.zeros(len(scores))
        orders = list(permutations(range(len(scores))))
        for order in orders:
            left = 1 / len(orders)
            for i in order:
                chances[i] += left * weights[i]
                left *= 1 - weights[i]
    return lambda k: float(chances[: k + 1].sum())
