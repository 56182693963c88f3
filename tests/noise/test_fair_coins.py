"""The binomial sampler has exactly its distribution."""

from fractions import Fraction

import pytest

from discreet import noise
from tests.support.distributions import binomial_cdf
from tests.support.goodness_of_fit import edges_of, rejects

DRAWS = 10**6


COINS = [0, 1, 2, 3, 4, 5, 7, 8, 16, 33, 64, 100, 101, 500, 1000, 1999, 10**4, 10**5 + 1, 10**6, 2**24]


@pytest.mark.parametrize("n", COINS)
def test_binomial(n: int) -> None:
    draws = noise.binomial(n, DRAWS)
    edges = [n // 2 + edge for edge in edges_of(max(1.0, n**0.5 / 2))]
    assert not rejects(draws, binomial_cdf(Fraction(n)), edges)
    if n >= 100:  # a scale √n/2 that is 2% off: the same middle, 4% more coins
        wider = binomial_cdf(Fraction(n + n * 4 // 200 * 2))
        assert rejects(
            draws - n // 2 + (n + n * 4 // 200 * 2) // 2, wider, [e - n // 2 + (n + n * 4 // 200 * 2) // 2 for e in edges]
        )
