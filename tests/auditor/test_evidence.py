"""The statistics: exact bounds, claims as curves, answers read one by one, and what is chosen is never counted on."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import comb, exp, inf, lgamma, log, log1p
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from discreet import Gaussian, Laplace
from discreet.auditor import Mu, Pair, RenyiPoint, Rho
from discreet.auditor.claims import Point, sample_curve
from discreet.auditor.evidence import (
    Candidate,
    Evidence,
    OutputEvent,
    certify_events,
    clopper_pearson_lower,
    clopper_pearson_upper,
)
from discreet.auditor.outputs import FailedCall, Outputs, concatenate, from_array, from_objects
from discreet.auditor.scores import compute_trailing_exponents, learn_scores, select_informative_columns
from discreet.errors import BadParameter


def at_least(k: int, n: int, p: Fraction) -> Fraction:
    return sum((comb(n, j) * p**j * (1 - p) ** (n - j) for j in range(k, n + 1)), Fraction(0))


@pytest.mark.parametrize("alpha", [0.05, 1e-3, 1e-9])
@pytest.mark.parametrize(("k", "n"), [(0, 10), (1, 10), (7, 10), (10, 10), (3, 200), (199, 200)])
def test_clopper_pearson_is_exact(k: int, n: int, alpha: float) -> None:
    """At the bound, as many successes or more have probability α: hence a bound that is too high α of the time."""
    low, high = Fraction(clopper_pearson_lower(k, n, alpha)), Fraction(clopper_pearson_upper(k, n, alpha))
    if k:
        assert alpha * (1 - 1e-5) <= at_least(k, n, low) * (1 + Fraction(1, 10**9)) <= alpha * (1 + 1e-5)
        assert at_least(k, n, low) <= alpha
    if k < n:
        assert 1 - at_least(k + 1, n, high) <= alpha
        assert high > 0.999 or 1 - at_least(k + 1, n, high) >= alpha * (1 - 1e-5)  # near 1 caution outweighs α


@pytest.mark.parametrize("alpha", [1e-3, 1e-9])
@pytest.mark.parametrize("k", [1, 40, 50_000, 2_500_000, 4_999_000])
def test_and_stays_so_for_millions(k: int, alpha: float) -> None:
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
        assert alpha * (1 - 1e-2) < total < alpha * (1 + 1e-6), "near 1 caution costs a little"


@pytest.mark.parametrize("n", [50, 400])
def test_the_bound_on_epsilon_holds_as_often_as_it_says(n: int) -> None:
    """Over all pairs of counts, weighed by their probability: randomised response of ε = 1 is refuted at most α often."""
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


def test_two_steps_show_the_epsilon_of_one() -> None:
    """At ε and δ for one unit, two may reach e^{2ε}·q + (1 + e^ε)·δ and no more."""
    for eps, fail, q in ((1.0, 0.0, 0.1), (0.3, 0.01, 0.2), (2.0, 1e-6, 0.004)):
        most = exp(2 * eps) * q + (1 + exp(eps)) * fail
        two = Point(eps, fail).for_two_units()
        assert abs(two.max_probability(q) - most) < 1e-9
        assert abs(two.refuted_epsilon(most, q) - eps) < 1e-9
        assert two.claimed_point == Point(eps, fail)
        assert Point(eps, fail).refuted_epsilon(most, q) > eps
    assert Point(1.0, 0.2).for_two_units().refuted_epsilon(0.1, 0.5) == 0


def test_claims_are_curves() -> None:
    assert sample_curve(1) == (Point(1.0, 0.0),)
    gaussian = sample_curve(Gaussian(2).event(1))
    assert gaussian[0].epsilon == 0
    assert abs(gaussian[0].delta - 0.19741) < 1e-4  # 2Φ(1/4) − 1
    for a, b in zip(gaussian, sample_curve(Mu(0.5)), strict=True):
        assert abs(a.delta - b.delta) < 1e-3
    for looser in (Rho(0.125), RenyiPoint(4, 0.5)):  # what 1/2-GDP implies promises less than it does
        for point in sample_curve(looser):
            tight = [near for near in gaussian if near.epsilon >= point.epsilon]
            assert not tight or point.delta >= tight[0].delta
    assert Point(1.0, 0.0) in sample_curve(Laplace(1).event(1))
    for wrong in (-1, (1, 2), (1, 1)):
        with pytest.raises(BadParameter):
            sample_curve(wrong)  # type: ignore[arg-type]


def test_answers_of_every_kind_are_told_apart() -> None:
    found = from_objects(
        [1.5, float("nan"), float("inf"), None, "x", "xx", [1, 2], [1], {"a": 1}, {"b": 1}, FailedCall("raises E")]
    )
    assert len(set(found.digests.tolist())) == 11
    sorts = [found.labels[code] for code in found.kinds.tolist()]
    assert len(set(sorts)) == 10  # the two texts are of one sort
    assert "['a']" in found.columns
    both = concatenate([found, from_array(np.array([1.5, 2.5]))])
    assert len(both) == 13
    assert compute_trailing_exponents(np.array([0.5, 3.0, np.nan])).tolist() == [-1, 0, 9999]


ANYTHING: list[Any] = [
    1.5, -0.0, float("nan"), float("inf"), 3, 2**60, True, None, "x", "xx", [1, 2], [1.5], (), {"a": 1}, {"b": 2.5, "a": 1},
    {"d", "e"}, np.float64(0.5), np.int64(3), FailedCall("raises E"), 2 + 1j, b"xy", [1, None, "x 2"], {"a": [1, [2, "y"]]},
    np.arange(3), np.array([1j]), Fraction(1, 3), SimpleNamespace(a=1, b="z"), ValueError("e"), object(), len, [0.5] * 40,
]  # fmt: skip
Reading = Callable[[Sequence[Any], tuple[str, ...]], Outputs]


def read_alone(reading: Reading) -> bool:
    """Whether an answer has the same sort, code and numbers in every company."""
    columns = (
        "the answer",
        "['a']",
        "answer[0]",
        "has 'e'",
        "the sum",
        "answer.a",
        "the text of answer[2]",
        "answer[2] number[0]",
    )
    for seed in range(200):
        rng = Random(seed)
        choices = rng.choice([ANYTHING, ANYTHING[:2], ANYTHING[4:5], ANYTHING[:5]])
        found = [rng.choice(choices) for _ in range(rng.randint(1, 9))]
        whole, parts = reading(found, columns), [reading([each], columns) for each in found]
        for i, part in enumerate(parts):
            if (whole.kinds[i], whole.digests[i]) != (part.kinds[0], part.digests[0]):
                return False
            if not np.array_equal(whole.get_numbers(columns)[i], part.get_numbers(columns)[0], equal_nan=True):
                return False
    return True


def test_an_answer_is_read_the_same_in_every_company() -> None:
    """Else an event could hold or not for a whole batch at once, and its count would be far from binomial."""

    def in_company(found: Sequence[Any], columns: tuple[str, ...]) -> Outputs:
        plain = all(type(each) is float for each in found)
        return from_array(np.array(found)) if plain else from_objects(found, columns)

    def first_columns(found: Sequence[Any], columns: tuple[str, ...]) -> Outputs:
        kept = from_objects(found, columns)
        return from_objects(found, kept.columns[: len(found) % 4])

    assert read_alone(from_objects)
    assert not read_alone(in_company)
    assert not read_alone(first_columns)


def test_the_clock_chooses_nothing() -> None:
    """Counts are taken at two places fixed before, with half of α each; what comes between is dropped."""
    ones, zeros = from_objects([1.0] * 500), from_objects([0.0] * 500)
    [score] = [each for each in learn_scores(ones, zeros, select_informative_columns(ones, zeros)) if each.simple]
    chosen = [Candidate(OutputEvent(score, 0.5, True), True, Point(1.0, 0.0), 0.0, 0.0, 0.0)]

    def certified(deadline: float, given: int) -> list[tuple[int, float]]:
        left = [given]

        def ask(data: Any, n: int, until: float, columns: Any) -> Outputs:
            size = min(n, left[0])
            left[0] -= size
            return from_objects([float(data)] * size)

        found = certify_events(ask, Pair(1, 0), chosen, None, 100, 7, 0.01, deadline)
        assert all(
            (each.evidence.true_positives, each.evidence.false_positives) == (each.evidence.trials, 0) for each in found
        )
        return [(each.evidence.trials, each.evidence.alpha) for each in found]

    assert certified(inf, 200) == [(100, 0.01)]
    assert certified(1e300, 200) == [(100, 0.005)]
    assert certified(1e300, 199) == certified(1e300, 100) == [(50, 0.005)]
    assert certified(1e300, 99) == certified(0.0, 200) == []
