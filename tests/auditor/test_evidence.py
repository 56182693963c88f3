"""The statistics: exact binomial bounds, what they prove about ε, and the two counts under a deadline."""

import dataclasses
from fractions import Fraction
from math import comb, exp, inf, lgamma, log, log1p
from typing import Any

import numpy as np
import pytest

from discreet.auditor import Pair
from discreet.auditor.claims import Point
from discreet.auditor.evidence import (
    Candidate,
    Evidence,
    OutputEvent,
    certify_events,
    clopper_pearson_lower,
    clopper_pearson_upper,
)
from discreet.auditor.outputs import Outputs, from_objects
from discreet.auditor.scores import learn_scores, select_informative_columns


def at_least(k: int, n: int, p: Fraction) -> Fraction:
    return sum((comb(n, j) * p**j * (1 - p) ** (n - j) for j in range(k, n + 1)), Fraction(0))


@pytest.mark.parametrize("alpha", [0.05, 1e-3, 1e-9])
@pytest.mark.parametrize(("k", "n"), [(0, 10), (1, 10), (7, 10), (10, 10), (3, 200), (199, 200)])
def test_clopper_pearson_is_exact(k: int, n: int, alpha: float) -> None:
    """At the bound, k successes or more have probability α: so the bound is wrong with probability α."""
    low, high = Fraction(clopper_pearson_lower(k, n, alpha)), Fraction(clopper_pearson_upper(k, n, alpha))
    if k:
        assert alpha * (1 - 1e-5) <= at_least(k, n, low) * (1 + Fraction(1, 10**9)) <= alpha * (1 + 1e-5)
        assert at_least(k, n, low) <= alpha
    if k < n:
        assert 1 - at_least(k + 1, n, high) <= alpha
        assert high > 0.999 or 1 - at_least(k + 1, n, high) >= alpha * (1 - 1e-5)  # near 1 the rounding margin exceeds α


@pytest.mark.parametrize("alpha", [1e-3, 1e-9])
@pytest.mark.parametrize("k", [1, 40, 50_000, 2_500_000, 4_999_000])
def test_clopper_pearson_is_exact_for_millions(k: int, alpha: float) -> None:
    """The tail added up term by term, from the first, whose logarithm is good to 1e-7 or so."""
    n = 5_000_000
    for bound, first, step in ((clopper_pearson_lower(k, n, alpha), k, 1), (clopper_pearson_upper(k, n, alpha), k, -1)):
        term = exp(
            lgamma(n + 1) - lgamma(first + 1) - lgamma(n - first + 1) + first * log(bound) + (n - first) * log1p(-bound)
        )
        odds, total, j = bound / (1 - bound), 0.0, first
        while 0 <= j <= n and term > 1e-12 * total:
            total += term
            term *= (n - j) / (j + 1) * odds if step > 0 else j / (n - j + 1) / odds
            j += step
        assert alpha * (1 - 1e-2) < total < alpha * (1 + 1e-6), "near 1 the rounding margin shows"


@pytest.mark.parametrize("n", [50, 400])
def test_the_bound_on_epsilon_holds_with_its_confidence(n: int) -> None:
    """Over all pairs of counts, weighted by their probability: randomised response of ε = 1 is refuted at most α often."""
    p, alpha = exp(1) / (1 + exp(1)), 0.05
    chances = np.array([comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)])
    wrong = sum(
        chances[a] * chances[n - b]
        for a in range(n + 1)
        for b in range(n + 1)
        if chances[a] * chances[n - b] > 1e-12 and Evidence(a, n, b, n, Point(1.0, 0.0), alpha).is_violation
    )
    assert wrong <= alpha
    assert wrong > 0  # the bound is not vacuous


@pytest.mark.parametrize("point", [Point(1.0, 0.0), Point(0.1, 0.01), Point(3.0, 1e-6)])
@pytest.mark.parametrize("n", [50, 1_000, 200_000])
def test_an_event_below_the_minimum_detectable_probability_cannot_refute(point: Point, n: int) -> None:
    evidence = Evidence(0, n, 0, n, point, 1e-4)
    least = round(evidence.min_detectable_probability * n)
    assert least == n or dataclasses.replace(evidence, true_positives=least).is_violation
    assert not dataclasses.replace(evidence, true_positives=least - 1).is_violation


def test_the_clock_chooses_nothing() -> None:
    """Events are counted at two places fixed beforehand, with half of α each; outputs between them are dropped."""
    ones, zeros = from_objects([1.0] * 500), from_objects([0.0] * 500)
    [score] = [each for each in learn_scores(ones, zeros, select_informative_columns(ones, zeros)) if each.simple]
    chosen = [Candidate(OutputEvent(score, 0.5, True), True, Point(1.0, 0.0), 0.0, 0.0, 0.0)]

    def certify(deadline: float, available: int) -> list[tuple[int, float]]:
        remaining = [available]

        def draw(data: Any, n: int, until: float, columns: Any) -> Outputs:
            size = min(n, remaining[0])
            remaining[0] -= size
            return from_objects([float(data)] * size)

        certified = certify_events(draw, Pair(1, 0), chosen, None, 100, 7, 0.01, deadline)
        assert all(
            (each.evidence.true_positives, each.evidence.false_positives) == (each.evidence.trials, 0) for each in certified
        )
        return [(each.evidence.trials, each.evidence.alpha) for each in certified]

    assert certify(inf, 200) == [(100, 0.01)]
    assert certify(1e300, 200) == [(100, 0.005)]
    assert certify(1e300, 199) == certify(1e300, 100) == [(50, 0.005)]
    assert certify(1e300, 99) == certify(0.0, 200) == []
