"""The truncated geometric mechanism: its distribution, and its ε by brute force."""

from fractions import Fraction

import numpy as np

from discreet import (
    Geometric,
    Laplace,
    TruncatedGeometric,
)
from tests.support.distributions import discrete_laplace_cdf
from tests.support.goodness_of_fit import rejects


def test_geometric_and_truncated_geometric() -> None:
    assert Geometric is Laplace
    m = TruncatedGeometric.for_epsilon(Fraction(1, 3), 1, 0, 6)
    draws = np.asarray(m.release(np.full(300_000, 2)))
    inside = discrete_laplace_cdf(Fraction(3))
    assert not rejects(draws, lambda k: 0.0 if k < 0 else 1.0 if k >= 6 else inside(k - 2), list(range(-1, 7)))
    for x in range(6):  # brute force: every output's ratio between neighbours stays within e^ε
        p, q = (np.diff([0.0, *(inside(k - y) for k in range(6)), 1.0]) for y in (x, x + 1))
        assert np.abs(np.log(p / q)).max() <= 1 / 3 + 1e-12
