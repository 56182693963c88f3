"""Soundness of the curve: random compositions against an oracle. Not one interval may miss it, by any strategy."""

from collections.abc import Iterator
from fractions import Fraction
from math import floor, prod
from random import Random

import pytest
from flint import arb, ctx

from discreet.accounting.contour import bound_delta_by_contour
from discreet.accounting.curve import delta, epsilon
from discreet.accounting.dominating_pairs import Direction, build_direction
from discreet.accounting.rewrite import list_alternatives
from discreet.events import (
    BinomialEvent,
    Claim,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    RandomizedResponseEvent,
    Subsampled,
    compose,
)
from discreet.units import Sensitivity
from tests.support import outcome_oracle as oracle

TAIL = 1e-60  # what a cut discrete Gaussian leaves out


def fraction(random: Random, low: float, high: float) -> Fraction:
    return Fraction(random.uniform(low, high)).limit_denominator(50) + Fraction(1, 50)


def shifted(by: int) -> Sensitivity:
    return Sensitivity(l0=1, linf=by)


def small(random: Random) -> tuple[Event, oracle.Outcomes]:
    """A random event, and its two distributions written down by hand."""
    match random.choice(["response", "choices", "claim", "laplace", "binomial", "gaussian"]):
        case "response":
            share = fraction(random, 0.5, 0.9)
            return RandomizedResponseEvent(share, 2), oracle.response(share, 2)
        case "choices":
            share, choices = fraction(random, 0.1, 0.9), random.randint(3, 6)
            return RandomizedResponseEvent(share, choices), oracle.response(share, choices)
        case "claim":
            eps, gap = fraction(random, 0, 2), Fraction(random.randint(0, 3), random.choice([100, 10**6]))
            return Claim(eps, gap), oracle.claim(eps, gap)
        case "laplace":
            scale, by = fraction(random, 0.3, 5), random.randint(1, 5)
            return DiscreteLaplaceEvent(scale, shifted(by)), oracle.discrete_laplace(scale, by)
        case "binomial":
            n, by = random.randint(2, 16), random.randint(1, 2)
            return BinomialEvent(n, shifted(by)), oracle.binomial(n, by)
        case _:
            sigma = fraction(random, 0.3, 1)
            return DiscreteGaussianEvent(sigma, shifted(1)), oracle.discrete_gaussian(sigma, 1, 18)


def composition(random: Random) -> tuple[Event, oracle.Outcomes]:
    parts = []
    while not parts or (len(parts) < 4 and random.random() < 0.7):
        event, outcomes = small(random)
        if random.random() < 0.3:
            rate = fraction(random, 0.02, 0.9)
            event, outcomes = Subsampled(event, rate), oracle.sampled(outcomes, rate)
        if prod(len(o) for _, o in parts) * len(outcomes) <= 4000:
            parts.append((event, outcomes))
    return compose(*(event for event, _ in parts)), oracle.composed([outcomes for _, outcomes in parts])


def by_contour(one: Direction, eps: float) -> tuple[float, float]:
    low, high = bound_delta_by_contour(one.parts, eps, 1e-4)
    return low + one.infinity_mass[0], high + one.infinity_mass[1]


def check_small(seed: int) -> None:
    random = Random(seed)
    event, outcomes = composition(random)
    eps = random.choice([0.0, random.uniform(0, 1), random.uniform(0, 4)])
    both = [oracle.hockey_stick(outcomes, Fraction(eps), swapped) for swapped in (False, True)]
    worst = both[0].max(both[1])
    found = delta(event, eps)
    assert not oracle.misses(found.lower, found.upper, worst, TAIL), (seed, event, eps)
    (choice,) = list_alternatives(event)
    for removed, exact in zip((True, False), both, strict=True):
        low, high = by_contour(build_direction(choice, removed=removed), eps)
        assert not oracle.misses(low, high, exact, TAIL), (seed, removed, event, eps)


@pytest.mark.parametrize("block", range(10))
def test_small_compositions_against_all_outcomes(block: int) -> None:
    for seed in range(block * 20, block * 20 + 20):
        check_small(seed)


@pytest.mark.nightly
@pytest.mark.parametrize("block", range(100))
def test_small_compositions_against_all_outcomes_nightly(block: int) -> None:
    for seed in range(1000 + block * 20, 1020 + block * 20):
        check_small(seed)


def lattice_parts(random: Random, unit: Fraction) -> Iterator[tuple[Event, int, dict[int, arb]]]:
    """Events whose losses are integer multiples of `unit`, how often, and the masses by multiple."""
    for _ in range(random.randint(1, 3)):
        times = random.choice([1, 7, 30, 100])
        if random.random() < 0.5:
            size = random.randint(1, 4)
            up = 1 / (1 + (-oracle.ball(size * unit)).exp())
            yield Claim(size * unit, Fraction(0)), times, {size: up, -size: 1 - up}
        else:
            by = random.randint(1, 5)
            outcomes = oracle.discrete_laplace(1 / unit, by)
            values = [by, -by, *(by - 2 * k for k in range(1, by))]
            yield (
                DiscreteLaplaceEvent(1 / unit, shifted(by)),
                times,
                {v: p for v, (p, _) in zip(values, outcomes, strict=True)},
            )


def check_large(seed: int) -> None:
    """Hundreds of steps on a common lattice: the masses by polynomial powers in 700 bits."""
    random = Random(seed)
    unit = fraction(random, 0, 0.3)
    with ctx.workprec(700):
        parts = list(lattice_parts(random, unit))
        total = [arb(1)]
        least = 0
        poly = oracle.lattice_power({0: arb(1)}, 1)
        for _, times, masses in parts:
            poly = poly * oracle.lattice_power(masses, times)
            least += times * min(masses)
        total = [poly[i] for i in range(poly.degree() + 1)]
        event = compose(*(part * times for part, times, _ in parts))
        top = float(unit) * (least + len(total) - 1)
        for share in (0.02, 0.2, 0.6):
            eps = share * top
            first = max(0, floor(Fraction(eps) / unit) - least)
            exact = sum(
                (
                    (1 - oracle.ball(Fraction(eps) - (least + i) * unit).exp()).max(arb(0)) * total[i]
                    for i in range(first, len(total))
                ),
                arb(0),
            )
            found = delta(event, eps, 1e-5)
            assert not oracle.misses(found.lower, found.upper, exact), (seed, event, eps)
            (choice,) = list_alternatives(event)
            low, high = by_contour(build_direction(choice, removed=True), eps)
            assert not oracle.misses(low, high, exact), (seed, event, eps)
            at = float(exact)
            if at > 1e-290:
                back = epsilon(event, at, 1e-5)
                assert back.lower <= eps * (1 + 1e-12) + 1e-15, (seed, event, eps)
                assert back.upper >= eps * (1 - 1e-12) - 1e-15, (seed, event, eps)


@pytest.mark.parametrize("seed", range(50))
def test_large_lattice_compositions_against_polynomial_powers(seed: int) -> None:
    check_large(seed)


@pytest.mark.nightly
@pytest.mark.parametrize("block", range(25))
def test_large_lattice_compositions_against_polynomial_powers_nightly(block: int) -> None:
    for seed in range(1000 + block * 20, 1020 + block * 20):
        check_large(seed)
