"""Rounds of samples without replacement from below, against both statistics' best use by direct integration.

Nothing here has a lattice of losses: V of one round is a closed form, V of more is integrated over the answers of one round,
densities written down by hand.
"""

from fractions import Fraction
from math import exp, sqrt

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr

from discreet.accounting.curve import delta, epsilon
from discreet.accounting.pld.gaussian import GaussianPld
from discreet.accounting.pld.laplace import LaplacePld
from discreet.accounting.switched_rounds import SwitchedRounds, find_switched_rounds
from discreet.events import (
    GaussianEvent,
    Group,
    LaplaceEvent,
    Memoised,
    Parallel,
    RandomizedResponseEvent,
    SampledWithoutReplacement,
    Subsampled,
    repeat,
    shuffle,
)
from discreet.units import Sensitivity, count

Floats = NDArray[np.floating]

CASES = [
    (GaussianPld(Fraction(1)), Fraction(1, 10)),
    (GaussianPld(Fraction(4)), Fraction(1, 2)),
    (GaussianPld(Fraction(1, 9)), Fraction(3, 10)),
    (LaplacePld(Fraction(1)), Fraction(1, 10)),
    (LaplacePld(Fraction(2)), Fraction(2, 3)),
]


def outcomes(noise: GaussianPld | LaplacePld) -> tuple[Floats, Floats]:
    """P and Q of many outcomes: cells of a fine grid for the Gaussian and, for Laplace noise, of its loss, with its ends."""
    if isinstance(noise, GaussianPld):
        y, mu = np.linspace(-11, 13, 6001), sqrt(noise.squared)
        tails = [np.where(y > m, ndtr(m - y), ndtr(y - m)) for m in (mu, 0.0)]
        masses = [np.abs(np.diff(tail)) for tail in tails]
        crossing = [(y[:-1] <= m) & (y[1:] > m) for m in (mu, 0.0)]
        for mass, where, m in zip(masses, crossing, (mu, 0.0), strict=True):
            mass[where] = (ndtr(y[1:] - m) - ndtr(y[:-1] - m))[where]
        return masses[0], masses[1]
    e = float(noise.epsilon)
    t = np.linspace(-e, e, 4001)
    p, q = np.diff(np.exp((t - e) / 2)) / 2, -np.diff(np.exp(-(t + e) / 2)) / 2
    return np.append(p, [0.5, exp(-e) / 2]), np.append(q, [exp(-e) / 2, 0.5])


def statistics(noise: GaussianPld | LaplacePld, rate: Fraction) -> list[tuple[Floats, Floats]]:
    (p, q), share = outcomes(noise), float(rate)
    return [((1 - share) * q + share * p, q), (p, (1 - share) * p + share * q)]


def most(pairs: list[tuple[Floats, Floats]], times: int, at: float) -> float:
    """The most of P(E) − e^at·Q(E), where every round's pair is chosen after the answers so far.

    After the first of two rounds the best second one is known exactly: sums over outcomes in the order of their ratio. In
    between, V is read from a fine table of values of a convex function, by chords: never too little.
    """
    x = np.linspace(at - 12, at + 6, 9001)

    def once(points: Floats) -> Floats:
        found = np.zeros(len(points))
        for a, b in pairs:
            order = np.argsort(-(a / b))
            inside, outside = (np.concatenate([[0.0], np.cumsum(part[order])]) for part in (a, b))
            ratio = (a / b)[order]
            many = np.searchsorted(-ratio, -np.exp(points))  # outcomes whose ratio exceeds e^x
            found = np.maximum(found, inside[many] - np.exp(points) * outside[many])
        return found

    table = once(x)
    for left in range(times - 1, 0, -1):
        where = np.array([at]) if left == 1 else x
        best = np.zeros(len(where))
        for a, b in pairs:
            loss = np.log(a / b)
            best = np.maximum(best, [float((a * np.interp(z - loss, x, table)).sum()) for z in where])
        table = best
    return float(table[0])


@pytest.mark.parametrize(("noise", "rate"), CASES)
@pytest.mark.parametrize("at", [0.0, 0.2, 0.7])
def test_no_more_than_what_an_adaptive_analyst_attains(noise, rate, at):
    best = most(statistics(noise, rate), 2, at)
    found = SwitchedRounds(noise, rate, 2).find_delta(at)
    assert found <= best * (1 + 2e-5) + 1e-10
    assert found >= best * (1 - 5e-3) - 1e-6  # and not much less, or nothing would be shown


def test_three_rounds():
    noise, rate = GaussianPld(Fraction(1)), Fraction(1, 10)
    best = most([(a, b) for a, b in statistics(noise, rate)], 3, 0.5)
    found = SwitchedRounds(noise, rate, 3).find_delta(0.5)
    assert best * (1 - 5e-3) <= found <= best * (1 + 2e-5)


@pytest.mark.parametrize(("noise", "rate"), [CASES[0], CASES[3]])
def test_epsilon_is_where_delta_is(noise, rate):
    rounds = SwitchedRounds(noise, rate, 2)
    found = rounds.find_epsilon(1e-3, (0.0, 3.0))
    assert 0 < found < 3
    assert most(statistics(noise, rate), 2, found) >= 1e-3 * (1 - 2e-5)
    assert rounds.find_delta(found * 1.002) < 1e-3 < rounds.find_delta(found * 0.999)


@pytest.mark.parametrize(
    "inner",
    [GaussianEvent(Fraction(1), count()), GaussianEvent(Fraction(1, 2), count()), LaplaceEvent(Fraction(1), count())],
)
@pytest.mark.parametrize(("rate", "times"), [(Fraction(1, 10), 3), (Fraction(1, 2), 2), (Fraction(9, 10), 5)])
def test_adapting_is_worth_something_and_stays_below_the_upper_end(inner, rate, times):
    event = repeat(SampledWithoutReplacement(inner, rate), times)
    found, fixed = delta(event, 0), delta(repeat(Subsampled(inner, rate), times), 0)
    assert fixed.lower * 1.001 < find_switched_rounds(event).find_delta(0.0) <= found.lower <= found.upper
    cost = epsilon(event, 1e-4)
    assert epsilon(repeat(Subsampled(inner, rate), times), 1e-4).lower <= cost.lower < cost.upper
    assert delta(event, cost.lower).upper >= 1e-4


def test_only_rounds_of_one_noise_are_switched():
    bell = GaussianEvent(Fraction(1), count())
    share = SampledWithoutReplacement(bell, Fraction(1, 10))
    assert find_switched_rounds(share) is None
    assert find_switched_rounds(share + bell) is None
    assert find_switched_rounds(repeat(Subsampled(bell, Fraction(1, 10)), 3)) is None
    assert find_switched_rounds(repeat(share, 1000)) is None
    several = LaplaceEvent(Fraction(1), Sensitivity(l0=3, linf=1))
    assert find_switched_rounds(repeat(SampledWithoutReplacement(several, Fraction(1, 10)), 3)) is None


def test_what_is_attained_inside_the_sample_is_switched():
    """A group of two that moves together is noise of half the scale; of a share of reports no neighbour is known."""
    bell, point = GaussianEvent(Fraction(1), count()), LaplaceEvent(Fraction(1), count())

    def rounds(inner):
        return find_switched_rounds(repeat(SampledWithoutReplacement(inner, Fraction(1, 3)), 3))

    assert rounds(Group(bell, 3)) == rounds(GaussianEvent(Fraction(1, 3), count())) is not None
    assert rounds(Group(point, 2)) == rounds(LaplaceEvent(Fraction(1, 2), count())) is not None
    assert rounds(Group(Group(point, 2), 1)) == rounds(Group(point, 2))
    assert rounds(Group(Parallel((bell,)), 2)) == rounds(Group(bell, 2))
    answer = RandomizedResponseEvent(Fraction(3, 4), 2)
    assert rounds(Memoised(answer, answer, RandomizedResponseEvent(Fraction(9, 10), 2), 3, 2)) is None
    assert rounds(Group(Subsampled(bell, Fraction(1, 10)), 2, replaced=True)) is None
    assert rounds(Parallel((shuffle(answer, 50), bell))) is None
