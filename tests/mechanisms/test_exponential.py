"""The exponential mechanism is private by brute force, and useful."""

from math import log

import numpy as np
import pytest

from discreet import BadValues, Exponential, SelectionRule
from tests.support.distributions import selection_cdf


@pytest.mark.parametrize("rule", SelectionRule)
def test_exponential_is_private_by_brute_force_and_useful(rule: SelectionRule) -> None:
    """All pairs of score vectors over a small lattice that one unit can connect; probabilities from the formula."""
    from itertools import product

    epsilon = 1.0
    m = Exponential.for_epsilon(epsilon, sensitivity=1, rule=rule)
    worst = 0.0
    for scores in product(range(3), repeat=3):
        for move in product((-1, 0, 1), repeat=3):
            cdfs = [selection_cdf(list(s), float(m.rate), rule) for s in (scores, np.add(scores, move).tolist())]
            p, q = ([cdf(k) - cdf(k - 1) if k else cdf(0) for k in range(3)] for cdf in cdfs)
            worst = max(worst, *(abs(log(x / y)) for x, y in zip(p, q, strict=True)))
    assert 0.8 * epsilon < worst <= epsilon + 1e-12
    reach = m.error(0.99, size=5)
    misses = sum(10 - [10, 8, 6, 4, 2][m.release([10, 8, 6, 4, 2])] > reach for _ in range(500))
    assert misses < 40  # at most 1% expected; 40 has probability below 1e-20


def test_exponential_refuses_bad_scores() -> None:
    for scores in ([], [1, float("nan")], ["a"], [True], [None]):
        with pytest.raises(BadValues):
            Exponential(1).release(scores)
