"""The one-run bound, against exact rational arithmetic and against mechanisms whose guesses are known."""

from fractions import Fraction
from math import comb, log

import numpy as np
import pytest

from discreet.auditor import OneRun, bound_right_guesses, certify_one_run
from discreet.auditor.claims import Point
from discreet.auditor.one_run import check_one_run
from discreet.errors import BadParameter


def exact_bound(canaries: int, guesses: int, right: int, odds: int, delta: Fraction) -> Fraction:
    """The bound in rationals, for e^ε = odds, from its definition: every i up to m, every probability summed anew."""
    p = Fraction(odds, 1 + odds)

    def between(low: int, high: int) -> Fraction:
        """P[low ≤ B < high]."""
        places = range(max(low, 0), min(high, guesses + 1))
        return sum((comb(guesses, k) * p**k * (1 - p) ** (guesses - k) for k in places), Fraction(0))

    most = max(between(right - i, right) / i for i in range(1, canaries + 1))
    return min(Fraction(1), between(right, guesses + 1) + 2 * canaries * delta * most)


@pytest.mark.parametrize("odds", [1, 3, 20])
@pytest.mark.parametrize("delta", [Fraction(0), Fraction(1, 10**4), Fraction(1, 50)])
def test_the_bound_is_the_exact_one(odds: int, delta: Fraction) -> None:
    for guesses, right in ((1, 1), (7, 5), (12, 12), (15, 3), (15, 0)):
        exact = float(exact_bound(20, guesses, right, odds, delta))
        assert bound_right_guesses(20, guesses, right, log(odds), float(delta)) == pytest.approx(exact, rel=1e-6)


def test_the_published_example() -> None:
    """[SNJ23, App. D]: 75 of 100 at ε = log 3."""
    assert bound_right_guesses(100, 100, 75, log(3)) == pytest.approx(0.553, abs=5e-4)


def test_the_certified_epsilon_inverts_the_bound() -> None:
    for right, delta in ((90, 0.0), (100, 1e-5), (75, 1e-4)):
        found = certify_one_run(1000, 100, right, delta, 0.01)
        assert bound_right_guesses(1000, 100, right, found, delta) <= 0.01
        assert bound_right_guesses(1000, 100, right, found + 1e-6, delta) > 0.01
    assert certify_one_run(1000, 100, 100, 1e-2, 1e-3) == 0.0  # 2mδ exceeds what 100 guesses can show


def respond(epsilon: float, canaries: int, source: np.random.Generator) -> OneRun:
    """Randomised response: for it the bound is tight."""
    included = source.random(canaries) < 0.5
    truthful = source.random(canaries) < 1 / (1 + np.exp(-epsilon))
    return OneRun(np.where(included == truthful, 1.0, -1.0) + source.random(canaries) / 100, included)


def test_randomised_response_is_bounded_tightly_and_refuted_above_its_epsilon() -> None:
    source = np.random.default_rng(3)
    runs = [respond(2.0, 2000, source) for _ in range(4)]
    assert not any(check_one_run(run, [Point(2.0, 0.0)], 1e-6).violation for run in runs)
    assert all(check_one_run(run, [Point(1.0, 0.0)], 1e-6).violation for run in runs)


def test_too_many_right_guesses_than_guesses_are_refused() -> None:
    with pytest.raises(BadParameter, match="right"):
        bound_right_guesses(10, 5, 6, 1.0)
