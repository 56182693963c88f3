"""The statistics: exact bounds, claims as curves, and what is chosen is never counted on."""

from fractions import Fraction
from math import comb, exp

import numpy as np
import pytest

from discreet import Gaussian, Laplace
from discreet.auditor import Mu, RenyiPoint, Rho
from discreet.auditor.answers import Raised, of_array, of_objects, together
from discreet.auditor.claims import Point, curve
from discreet.auditor.evidence import Evidence, lower, upper
from discreet.auditor.features import trailing_exponents
from discreet.errors import BadParameter


def at_least(k: int, n: int, p: Fraction) -> Fraction:
    return sum((comb(n, j) * p**j * (1 - p) ** (n - j) for j in range(k, n + 1)), Fraction(0))


@pytest.mark.parametrize("alpha", [0.05, 1e-3, 1e-9])
@pytest.mark.parametrize(("k", "n"), [(0, 10), (1, 10), (7, 10), (10, 10), (3, 200), (199, 200)])
def test_clopper_pearson_is_exact(k: int, n: int, alpha: float) -> None:
    """At the bound, as many successes or more have probability α: hence a bound that is too high α of the time."""
    low, high = Fraction(lower(k, n, alpha)), Fraction(upper(k, n, alpha))
    if k:
        assert alpha * (1 - 1e-5) <= at_least(k, n, low) * (1 + Fraction(1, 10**9)) <= alpha * (1 + 1e-5)
        assert at_least(k, n, low) <= alpha
    if k < n:
        assert 1 - at_least(k + 1, n, high) <= alpha
        assert high > 0.999 or 1 - at_least(k + 1, n, high) >= alpha * (1 - 1e-5)  # near 1 caution outweighs α


@pytest.mark.parametrize("n", [50, 400])
def test_the_bound_on_epsilon_holds_as_often_as_it_says(n: int) -> None:
    """Over all pairs of counts, weighed by their probability: randomised response of ε = 1 is refuted at most α often."""
    p, alpha = exp(1) / (1 + exp(1)), 0.05
    chances = np.array([comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)])
    wrong = sum(
        chances[a] * chances[n - b]
        for a in range(n + 1)
        for b in range(n + 1)
        if chances[a] * chances[n - b] > 1e-12 and Evidence(a, n, b, n, Point(1.0, 0.0), alpha).violates
    )
    assert wrong <= alpha
    assert wrong > 0  # the bound is not vacuous


def test_claims_are_curves() -> None:
    assert curve(1) == (Point(1.0, 0.0),)
    gaussian = curve(Gaussian(2).loss(1))
    assert gaussian[0].epsilon == 0
    assert abs(gaussian[0].delta - 0.19741) < 1e-4  # 2Φ(1/4) − 1
    for a, b in zip(gaussian, curve(Mu(0.5)), strict=True):
        assert abs(a.delta - b.delta) < 1e-3
    for looser in (Rho(0.125), RenyiPoint(4, 0.5)):  # what 1/2-GDP implies promises less than it does
        for point in curve(looser):
            tight = [near for near in gaussian if near.epsilon >= point.epsilon]
            assert not tight or point.delta >= tight[0].delta
    assert Point(1.0, 0.0) in curve(Laplace(1).loss(1))
    for wrong in (-1, (1, 2), (1, 1)):
        with pytest.raises(BadParameter):
            curve(wrong)  # type: ignore[arg-type]


def test_answers_of_every_kind_are_told_apart() -> None:
    found = of_objects(
        [1.5, float("nan"), float("inf"), None, "x", "xx", [1, 2], [1], {"a": 1}, {"b": 1}, Raised("raises E")]
    )
    assert len(set(found.whole.tolist())) == 11
    sorts = [found.sorts[code] for code in found.sort.tolist()]
    assert len(set(sorts)) == 10  # the two texts are of one sort
    assert "['a']" in found.columns
    both = together([found, of_array(np.array([1.5, 2.5]))])
    assert len(both) == 13
    assert trailing_exponents(np.array([0.5, 3.0, np.nan])).tolist() == [-1, 0, 9999]
