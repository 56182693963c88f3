"""Soundness where accounting is hard: samples around compositions that hold samples, a few rounds on samples, and noise on
huge lattices. Not one interval may miss what enumeration or an integral finds."""

from fractions import Fraction
from itertools import pairwise
from math import exp, log, sqrt
from random import Random
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr

from discreet.accounting import dominating_pairs
from discreet.accounting.contour import bound_delta_by_contour
from discreet.accounting.curve import delta, epsilon
from discreet.accounting.dominating_pairs import build_direction
from discreet.accounting.pld import Interval, Pld
from discreet.accounting.pld import cells as module
from discreet.accounting.pld.discrete import DiscretePld
from discreet.accounting.pld.sampled import SampledGaussianPld, SampledLaplacePld
from discreet.accounting.rewrite import list_alternatives
from discreet.events import (
    BinomialEvent,
    Claim,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    ExponentialEvent,
    GaussianEvent,
    LaplaceEvent,
    OptimalPartitionSelectionEvent,
    Parallel,
    PermuteAndFlipEvent,
    RandomizedResponseEvent,
    SampledWithoutReplacement,
    Subsampled,
    ThresholdEvent,
    compose,
    repeat,
)
from discreet.units import Sensitivity, count
from tests.support import outcome_oracle as oracle


def fraction(random: Random, low: float, high: float) -> Fraction:
    return Fraction(random.uniform(low, high)).limit_denominator(50) + Fraction(1, 50)


def small(random: Random) -> tuple[Event, oracle.Outcomes]:
    """A random event without a mass at infinity, and its two distributions written down by hand."""
    match random.choice(["response", "claim", "laplace", "gaussian"]):
        case "response":
            share = fraction(random, 0.5, 0.9)
            return RandomizedResponseEvent(share, 2), oracle.response(share, 2)
        case "claim":
            eps = fraction(random, 0, 2)
            return Claim(eps, Fraction(0)), oracle.claim(eps, Fraction(0))
        case "laplace":
            scale, by = fraction(random, 0.3, 5), random.randint(1, 3)
            return DiscreteLaplaceEvent(scale, Sensitivity(l0=1, linf=by)), oracle.discrete_laplace(scale, by)
        case _:
            sigma = fraction(random, 0.3, 0.6)
            return DiscreteGaussianEvent(sigma, count()), oracle.discrete_gaussian(sigma, 1, 12)


def nested(random: Random) -> tuple[Event, oracle.Outcomes]:
    """A sample of a composition, at least one part of which is a sample."""
    parts = []
    for i in range(random.randint(2, 3)):
        event, outcomes = small(random)
        if i == 0 or random.random() < 0.5:
            rate = fraction(random, 0.05, 0.9)
            event, outcomes = Subsampled(event, rate), oracle.sampled(outcomes, rate)
        if len(parts) < 2 or len(outcomes) <= 4:
            parts.append((event, outcomes))
    rate = fraction(random, 0.05, 0.9)
    inside = oracle.composed([outcomes for _, outcomes in parts])
    return Subsampled(compose(*(event for event, _ in parts)), rate), oracle.sampled(inside, rate)


def check_nested(seed: int, width: float = 0.02) -> None:
    random = Random(seed)
    event, outcomes = nested(random)
    if random.random() < 0.5:
        extra, more = small(random)
        if len(more) * len(outcomes) < 4000:
            event, outcomes = compose(event, extra), oracle.composed([outcomes, more])
    for eps in (0.0, random.uniform(0, 1), random.uniform(0, 4)):
        both = [oracle.hockey_stick(outcomes, Fraction(eps), swapped) for swapped in (False, True)]
        found = delta(event, eps)
        assert not oracle.misses(found.lower, found.upper, both[0].max(both[1]), 1e-40), (seed, event, eps)
        assert found.upper <= (1 + width) * found.lower + 1e-9, (seed, event, eps)  # the interval says something


@pytest.mark.parametrize("cells", [1000, 30])
@pytest.mark.parametrize("block", range(3))
def test_samples_of_compositions_of_samples_against_all_outcomes(
    block: int, cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CELLS", cells)  # a few cells merge what a thousand would list
    module.list_cells.cache_clear()
    for seed in range(block * 10, block * 10 + 10):
        check_nested(seed, 0.02 if cells == 1000 else 5.0)
    module.list_cells.cache_clear()


@pytest.mark.nightly
@pytest.mark.parametrize("block", range(60))
def test_samples_of_compositions_of_samples_against_all_outcomes_nightly(block: int) -> None:
    for seed in range(1000 + block * 20, 1020 + block * 20):
        check_nested(seed)


def with_mass_at_infinity(random: Random) -> tuple[Event, oracle.Outcomes]:
    """A random event with a mass at infinity, and its two distributions written down by hand."""
    if random.random() < 0.5:
        n, by = random.choice([2, 4, 9]), random.randint(1, 2)
        return BinomialEvent(n, Sensitivity(l0=1, linf=by)), oracle.binomial(n, by)
    eps, failing = fraction(random, 0, 2), random.choice([Fraction(1, 1000), Fraction(1, 7)])
    return Claim(eps, failing), oracle.claim(eps, failing)


def nested_with_masses(random: Random) -> tuple[Event, oracle.Outcomes]:
    """A sample of a composition that holds samples, perhaps in another one. Some outcomes are possible for one of two
    neighbours alone; on a sample, for only the one that has the unit."""
    event, outcomes = with_mass_at_infinity(random)
    depth = random.randint(1, 2)
    for level in range(depth):
        rate = random.choice([fraction(random, 0.05, 0.9), Fraction(1, 1000)])
        event, outcomes = Subsampled(event, rate), oracle.sampled(outcomes, rate)
        more, others = random.choice([small, with_mass_at_infinity])(random)
        if len(others) <= (30 if depth == 1 else 6 - level):
            event, outcomes = compose(event, more), oracle.composed([outcomes, others])
    rate = fraction(random, 0.05, 0.9)
    event, outcomes = Subsampled(event, rate), oracle.sampled(outcomes, rate)
    beside, others = with_mass_at_infinity(random)
    return compose(event, beside), oracle.composed([outcomes, others])


def find_missed_with_masses(seeds: range, width: float = 0.02) -> list[int]:
    """The seeds whose intervals miss the truth, or say too little."""
    found = []
    for seed in seeds:
        random = Random(seed)
        event, outcomes = nested_with_masses(random)
        for eps in (0.0, random.uniform(0, 1), random.uniform(0, 4)):
            both = [oracle.hockey_stick(outcomes, Fraction(eps), swapped) for swapped in (False, True)]
            one = delta(event, eps)
            is_missed = oracle.misses(one.lower, one.upper, both[0].max(both[1]), 1e-40)
            if is_missed or one.upper > (1 + width) * one.lower + 1e-9:
                found.append(seed)
    return found


@pytest.mark.parametrize("block", range(3))
def test_samples_of_compositions_with_masses_at_infinity_against_all_outcomes(block: int) -> None:
    assert find_missed_with_masses(range(block * 20, block * 20 + 20)) == []


@pytest.mark.nightly
@pytest.mark.parametrize("block", range(30))
def test_samples_of_compositions_with_masses_at_infinity_against_all_outcomes_nightly(block: int) -> None:
    assert find_missed_with_masses(range(1000 + block * 40, 1040 + block * 40)) == []


def test_what_only_one_of_two_neighbours_has_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutants: it is left out, or taken to be as much for both neighbours."""
    right = dominating_pairs.sample_poisson

    def alike(pld: DiscretePld, mass: Interval, rate: Fraction, removed: bool, second: Interval | None = None) -> Any:
        return right(pld, mass, rate, removed)

    monkeypatch.setattr(dominating_pairs, "sample_poisson", alike)
    assert find_missed_with_masses(range(20))
    monkeypatch.undo()
    monkeypatch.setattr(dominating_pairs, "bound_second_mass", lambda pld, omitted: (0.0, 0.0))
    assert find_missed_with_masses(range(20))


def gaussian_curve(mu: float, alpha: float) -> float:
    """H at α of N(μ, 1) against N(0, 1)."""
    if alpha <= 0:
        return 1 - alpha
    return float(ndtr(mu / 2 - log(alpha) / mu) - alpha * ndtr(-mu / 2 - log(alpha) / mu))


def laplace_curve(eps: float, alpha: float) -> float:
    if alpha <= exp(-eps):
        return 1 - alpha
    return max(0.0, 1 - sqrt(alpha / exp(eps)) if alpha >= 1 else 1 - alpha + alpha * (1 - sqrt(1 / alpha / exp(eps))))


def sampled_curve(curve: float, kind: str, rate: float, removed: bool, alpha: float) -> float:
    """H at any α > 0 of the mixture against Q, or of Q against the mixture."""
    if not removed:  # the mirror image
        return 1 - alpha + alpha * sampled_curve(curve, kind, rate, True, 1 / alpha)
    inner = 1 + (alpha - 1) / rate
    if inner <= 0:
        return 1 - alpha
    return rate * (gaussian_curve if kind == "gaussian" else laplace_curve)(curve, inner)


def two_rounds(kind: str, size: float, rate: float, removed: bool, eps: float) -> float:
    """δ(ε) of two rounds: the mean, under the second of the pair, of ratio·H at α/ratio over the first round."""
    alpha = exp(eps)

    def ratio(t: float) -> float:
        mixed = 1 - rate + rate * exp(t)
        return mixed if removed else 1 / mixed

    def term(t: float) -> float:  # per mass of Q, the noise without the unit
        weight = ratio(t) if removed else 1.0
        return weight * sampled_curve(size, kind, rate, removed, alpha / ratio(t))

    if kind == "laplace":
        middle = quad(lambda t: exp(-(t + size) / 2) / 4 * term(t), -size, size, limit=400, epsabs=1e-13)[0]
        return term(size) * exp(-size) / 2 + term(-size) / 2 + float(middle)
    density = 1 / sqrt(2 * np.pi)
    edges = np.linspace(-9, 9 + 3 * size, 13)
    pieces = (
        quad(lambda y: density * exp(-y * y / 2) * term(size * y - size**2 / 2), a, b, limit=200, epsabs=1e-14)[0]
        for a, b in pairwise(edges.tolist())
    )
    return float(sum(pieces))


ROUNDS = [(kind, size, rate) for kind in ("gaussian", "laplace") for size, rate in ((1.0, 0.1), (0.5, 0.7), (3.0, 0.02))]


@pytest.mark.parametrize("removed", [True, False])
@pytest.mark.parametrize(("kind", "size", "rate"), ROUNDS)
def test_two_rounds_on_a_sample_against_an_integral(kind: str, size: float, rate: float, removed: bool) -> None:
    exact = Fraction(size)
    pld: Pld = (
        SampledGaussianPld(exact**2, Fraction(rate), removed)
        if kind == "gaussian"
        else SampledLaplacePld(exact, Fraction(rate), removed)
    )
    most = min(2 * pld.max_loss, 3.0)
    for share in (0.0, 0.2, 0.5):
        eps = share * most
        truth = two_rounds(kind, size, rate, removed, eps)
        low, high = bound_delta_by_contour([(pld, 2)], eps, 1e-4)
        assert low - 1e-11 <= truth <= high + 1e-11
        assert high - low <= 2e-3 * high + 1e-11
        mutant = two_rounds(kind, size, rate * 1.01, removed, eps)  # so small a change is noticed
        assert eps > 0.4 * most or not low - 1e-11 <= mutant <= high + 1e-11


@pytest.mark.parametrize(
    ("event", "limit"),
    [
        (DiscreteGaussianEvent(Fraction(1000), Sensitivity(l0=1, linf=1000)), GaussianEvent(Fraction(1), count())),
        (DiscreteLaplaceEvent(Fraction(1 << 20), Sensitivity(l0=1, linf=1 << 20)), LaplaceEvent(Fraction(1), count())),
        (BinomialEvent(10**6, Sensitivity(l0=1, linf=500)), GaussianEvent(Fraction(1), count())),
    ],
)
def test_wide_noise_on_integers_is_close_to_noise_on_the_line(event: Event, limit: Event) -> None:
    """On a sample, 100 times: the two ends hold the continuous value up to what the lattice changes."""
    rate = Fraction(1, 100)
    found, line = (epsilon(100 * Subsampled(one, rate), 1e-6) for one in (event, limit))
    assert found.upper <= found.lower * (1 + 1e-3)
    assert found.lower * (1 - 1e-3) <= line.upper
    assert line.lower <= found.upper * (1 + 1e-3)


def test_delta_and_advantage_say_something_wherever_epsilon_does() -> None:
    """Few rounds with atoms are out of reach at first: a wider interval is the answer then, and not [0, 1]."""
    for event in (
        repeat(SampledWithoutReplacement(GaussianEvent(Fraction(1), count()), Fraction(1, 10)), 3),
        repeat(Subsampled(LaplaceEvent(Fraction(13, 2), count()), Fraction(1, 10)), 20),
    ):
        for eps in (0, Fraction(1, 100), Fraction(1, 10)):
            found = delta(event, eps)
            assert 0 < found.lower <= found.upper <= 1.2 * found.lower


def test_an_attacker_finds_no_less_at_zero_than_just_above_it() -> None:
    """δ falls with ε, and so do lower ends: at ε = 0 one of the two directions is left out only if it says nothing more."""
    bell, once = GaussianEvent(Fraction(1), count()), Fraction(1, 10)
    shown = ThresholdEvent(Fraction(2), 15, 2), OptimalPartitionSelectionEvent(Fraction(1), Fraction(1, 1000), 2)
    chosen = ExponentialEvent(Fraction(1)), PermuteAndFlipEvent(Fraction(1))
    one_of = Parallel((RandomizedResponseEvent(Fraction(3, 4), 2), Subsampled(bell, once)))
    for event in (
        *(repeat(one, times) for one in shown for times in (1, 3)),
        *(repeat(Subsampled(one, once), times) for one in (*shown, *chosen) for times in (1, 3)),
        *(repeat(SampledWithoutReplacement(one, once), 3) for one in (bell, *chosen)),
        *(compose(one_of, one) for one in (bell, Subsampled(bell, once), *shown)),
    ):
        zero, above = delta(event, 0), delta(event, Fraction(1, 10**6))
        assert zero.lower >= 0.999 * above.lower - 1e-6, event
        assert zero.upper >= above.lower, event


def test_both_directions_of_a_nested_sample_are_one_pair() -> None:
    """H_α(Q ‖ P) = 1 − α + α·H_{1/α}(P ‖ Q): what `_sample_cells` leans on, at α = 1."""
    inner = compose(Subsampled(GaussianEvent(Fraction(1), count()), Fraction(1, 10)), LaplaceEvent(Fraction(2), count()))
    (choice,) = list_alternatives(Subsampled(inner, Fraction(1, 3)))
    found = []
    for removed in (True, False):
        one = build_direction(choice, removed=removed)
        assert one.dominated_by is not None
        found.append(
            (bound_delta_by_contour(one.parts, 0.0, 1e-3), bound_delta_by_contour(one.dominated_by[0].parts, 0.0, 1e-3))
        )
    for below, above in found:
        assert below[0] <= found[0][1][1]
        assert above[1] >= found[1][0][0]
        assert above[1] <= 1.01 * below[0]
