"""Rounds of samples without replacement from below by a statistic with three values: against densities on a fine grid, and
against all samples of a small data set."""

from fractions import Fraction
from itertools import combinations
from math import cos, dist, exp, pi, sin, sqrt

import numpy as np
import pytest

from discreet.accounting import triangle_rounds
from discreet.accounting.curve import delta, epsilon
from discreet.accounting.triangle_rounds import build_triangle_pld, find_triangle_rounds
from discreet.events import GaussianEvent, LaplaceEvent, SampledWithoutReplacement, repeat
from discreet.units import Sensitivity, count

TENTH = Fraction(1, 10)
ONLY_L2 = Sensitivity(l2=1)


def integrate(mu: float, rate: float, at: float) -> float:
    """P(E) − e^at·Q(E) of the best E, over the plane."""
    y = np.linspace(-8 - mu, 8 + mu, 1201)
    h = y[1] - y[0]
    x, z = np.meshgrid(y, y, indexing="ij")
    corners = [(0.0, 0.0), (mu, 0.0), (mu * cos(pi / 3), mu * sin(pi / 3))]
    none, one, two = (np.exp(-((x - a) ** 2 + (z - b) ** 2) / 2) / (2 * pi) * h * h for a, b in corners)
    p, q = (1 - rate) * none + rate * one, (1 - rate) * none + rate * two
    return float(np.maximum(0.0, p - exp(at) * q).sum())


def divergence(pld, at: float) -> float:
    return float((np.exp(pld.log_mass) * np.maximum(0.0, -np.expm1(np.minimum(700, at - pld.loss)))).sum())


@pytest.mark.parametrize(
    ("squared", "rate"), [(1, TENTH), (1, Fraction(1, 100)), (4, Fraction(1, 2)), (Fraction(1, 9), TENTH)]
)
@pytest.mark.parametrize("at", [-0.05, 0.0, 0.02, 0.2])
def test_the_list_is_below_the_pair_and_near(squared, rate, at):
    truth = integrate(sqrt(squared), float(rate), at)
    found = divergence(build_triangle_pld(Fraction(squared), rate), at)
    assert truth * (1 - 2e-2) - 1e-5 <= found <= truth * (1 + 1e-4) + 1e-12


@pytest.mark.parametrize("rate", [TENTH, Fraction(1, 2)])
def test_one_round_is_not_above_the_worst_one(rate):
    """One round is known exactly; mutant: corners that are further from each other than the sensitivity."""
    once = SampledWithoutReplacement(GaussianEvent(Fraction(1), ONLY_L2), rate)
    wrong = triangle_rounds._list_pair(1.0, 0.6, 0.8, rate)
    for at in (0.0, 0.01, 0.05, 0.2):
        most = delta(once, at).upper
        assert divergence(build_triangle_pld(Fraction(1), rate), at) <= most
        if at < 0.02:
            assert divergence(wrong, at) > most


def longest_move(corners: dict[str, tuple[float, float]], m: int) -> float:
    """How far a replaced unit moves the statistic of m sampled units, whichever unit and whichever sample."""
    units = ["unit", "replacement", *(f"other {i}" for i in range(3))]

    def statistic(some: tuple[str, ...]) -> tuple[float, float]:
        return next((corners[one] for one in some if one in corners), (0.0, 0.0))

    samples = [one for one in combinations(units, m) if not {"unit", "replacement"} <= set(one)]
    return max(dist(statistic(a), statistic(b)) for a in samples for b in samples if len(set(a) & set(b)) == m - 1)


@pytest.mark.parametrize("m", [1, 2, 3])
def test_every_replaced_unit_of_a_sample_moves_the_statistic_within_its_bound(m):
    """Mutant: a right angle."""
    triangle = {"unit": (0.5, sqrt(0.75)), "replacement": (-0.5, sqrt(0.75))}
    assert longest_move(triangle, m) <= 1 + 1e-12
    assert longest_move({"unit": (1.0, 0.0), "replacement": (0.0, 1.0)}, m) > 1.4


def test_many_rounds_have_a_higher_lower_end():
    for times, gain in ((1000, 1.0002), (10_000, 1.07)):
        one, two = (
            epsilon(repeat(SampledWithoutReplacement(GaussianEvent(Fraction(1), norms), Fraction(1, 100)), times), 1e-6)
            for norms in (count(), ONLY_L2)
        )
        assert one.lower * gain < two.lower < two.upper
        assert two.upper == one.upper
    event = repeat(SampledWithoutReplacement(GaussianEvent(Fraction(1), ONLY_L2), Fraction(1, 100)), 1000)
    found = delta(event, 1)
    assert 0.0036 < found.lower < found.upper
    assert delta(event, two.upper).lower <= 1e-6


def test_only_many_rounds_of_one_gaussian_on_several_coordinates():
    share = SampledWithoutReplacement(GaussianEvent(Fraction(1), ONLY_L2), TENTH)
    assert find_triangle_rounds(repeat(share, 1000)) is not None
    assert find_triangle_rounds(share) is None
    assert find_triangle_rounds(repeat(share, 10)) is None
    assert find_triangle_rounds(repeat(share, 1000) + GaussianEvent(Fraction(1), ONLY_L2)) is None
    for norms in (count(), Sensitivity(l0=2, linf=1), Sensitivity(l2=1, l1=1), Sensitivity(l2=1, linf=Fraction(1, 2))):
        one = SampledWithoutReplacement(GaussianEvent(Fraction(1), norms), TENTH)
        assert find_triangle_rounds(repeat(one, 1000)) is None
    other = SampledWithoutReplacement(LaplaceEvent(Fraction(1), count()), TENTH)
    assert find_triangle_rounds(repeat(other, 1000)) is None
