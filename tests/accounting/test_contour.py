"""The contour: for each classic mistake a mutant, which the check that accepts the contour rejects."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf, log

import numpy as np
import pytest

from discreet.accounting import contour
from discreet.accounting.contour import Contour, build_contour, round_step
from discreet.accounting.curve import delta, epsilon
from discreet.accounting.dominating_pairs import build_direction
from discreet.accounting.pld import Floats, MgfRatio, Parts, Pld
from discreet.accounting.pld.discrete import build_pure_pld
from discreet.accounting.rewrite import list_alternatives
from discreet.accounting.strategies import DiscreteCurve
from discreet.events import (
    Claim,
    DiscreteGaussianEvent,
    Event,
    GaussianEvent,
    RandomizedResponseEvent,
    Subsampled,
    repeat,
)
from discreet.units import to_sensitivity

Interval = tuple[float, float]


def holds(value: float, interval: Interval) -> bool:
    return interval[0] <= value <= interval[1]


def epsilon_of(parts: Parts, delta: float) -> Interval:
    return contour.bound_epsilon_by_contour(parts, delta, 1e-6, (0.0, 0.0))


def parts_of(event: Event, removed: bool = True) -> Parts:
    (choice,) = list_alternatives(event)
    return build_direction(choice, removed=removed).parts


def test_a_dropped_multiplicity_is_noticed() -> None:
    event = Claim(Fraction(1, 20), Fraction(0)) * 1000
    ours = parts_of(event)
    mutant = [(pld, 1) for pld, _ in ours]
    assert holds(8.283573346016258, epsilon_of(ours, 1e-6))
    assert not holds(8.283573346016258, epsilon_of(mutant, 1e-6))


def test_a_swapped_direction_is_noticed() -> None:
    event = Subsampled(GaussianEvent(Fraction(1), to_sensitivity(1)), Fraction(1, 100)) * 10**4
    assert holds(6.18771239, epsilon_of(parts_of(event, removed=True), 1e-5))
    assert holds(5.61150862, epsilon_of(parts_of(event, removed=False), 1e-5))
    assert not holds(6.18771239, epsilon_of(parts_of(event, removed=False), 1e-5))
    assert not holds(5.61150862, epsilon_of(parts_of(event, removed=True), 1e-5))


@dataclass(frozen=True)
class Shaken(Pld):
    """A distribution computed by a worse machine: off by `wrong`, which it declares (or, the mutant, does not)."""

    pld: Pld
    wrong: float
    declared: bool

    @property
    def max_loss(self) -> float:
        return self.pld.max_loss

    def cgf(self, c: Floats) -> tuple[Floats, Floats]:
        value, error = self.pld.cgf(c)
        return value, error

    def mgf_ratio(self, c: float, base: float, s: Floats) -> MgfRatio:
        true = self.pld.mgf_ratio(c, base, s)
        moved = np.exp(true.log) * (1 - 0.5 * self.wrong)
        return MgfRatio(np.log(moved), true.error + (self.wrong if self.declared else 0.0))

    def modulus_bounds(self, c: float, s: Floats) -> Floats:
        return np.zeros(len(s))

    def decay_bound(self, c: float, s: float) -> float:
        return self.pld.decay_bound(c, s)


def test_a_missing_round_off_term_is_noticed() -> None:
    pld, eps = build_pure_pld(Fraction(1, 10)), 2.55
    exact = DiscreteCurve.match([(pld, 200)])
    assert exact is not None
    low, high = exact.bound_delta(eps)
    for wrong in (1e-7, 1e-9):
        ours = contour.bound_delta_by_contour([(Shaken(pld, wrong, True), 200)], eps, 1e-9)
        mutant = contour.bound_delta_by_contour([(Shaken(pld, wrong, False), 200)], eps, 1e-9)
        assert ours[0] <= low <= high <= ours[1]
        assert mutant[1] < low  # "pessimistic", and below the truth


def until_small(terms: Callable[[int], Contour], eps: float) -> Contour:
    """The mutant's rule: stop at the first node whose term is small, and count on nothing after it."""
    line = terms(4096)
    size = np.abs(np.exp(line.logs)) / np.maximum(line.s, line.c) ** 2
    stop = int(np.argmax(size < 1e-12 * size[0]))
    return replace(line, s=line.s[:stop], logs=line.logs[:stop], slack=line.slack[:stop], tail=0.0, envelope=0.0)


def test_truncation_by_a_small_term_is_noticed() -> None:
    """A lattice loss revives periodically: the terms after the first small one matter."""
    parts, eps = [(build_pure_pld(Fraction(1, 2)), 100)], 27.6
    exact = DiscreteCurve.match(parts)
    assert exact is not None
    truth = exact.bound_delta(eps)
    tilt = contour.find_saddle_point(parts, contour.CgfTable.of(parts), eps)

    def terms(count: int) -> Contour:
        return build_contour(parts, tilt.cgf_table, tilt.c, round_step(0.2), count, 0.0, -1e3)

    mutant = until_small(terms, eps).bound_delta(eps)
    ours = contour.bound_delta_by_contour(parts, eps, 1e-6)
    honest = terms(4096).bound_delta(eps)
    assert ours[0] <= truth[0] <= truth[1] <= ours[1]
    assert honest[0] <= truth[0] <= truth[1] <= honest[1]
    assert not mutant[0] <= truth[0] <= truth[1] <= mutant[1]


@pytest.mark.parametrize("lift", [0.999, 1.001])
def test_the_smoothing_is_bounded_on_both_sides(lift: float) -> None:
    """Without the correction for smoothing the lower end would pass the truth; with it, it may not."""
    parts, eps = [(build_pure_pld(Fraction(1, 2)), 40)], 10.0 * lift
    exact = DiscreteCurve.match(parts)
    assert exact is not None
    truth = exact.bound_delta(eps)
    tilt = contour.find_saddle_point(parts, contour.CgfTable.of(parts), eps)
    line = contour.fit_contour(parts, tilt, 0.05, np.log(truth[1]))
    assert line.smoothing > 0
    ours = line.bound_delta(eps)
    assert ours[0] <= truth[0] <= truth[1] <= ours[1]
    assert line._bound_smoothed_delta(eps, line.smoothing)[0] > truth[1]  # the mutant's lower end


@pytest.mark.parametrize("k", [10**5, 10**10, 10**12])
def test_a_smoothing_too_wide_for_its_lemma_gives_no_lower_end(k: int) -> None:
    """κ = √2·e^{-μ²/8} − 1 must be positive; where it was not, the lower end used to exceed the truth."""
    event = RandomizedResponseEvent(Fraction(9, 10), 5) * k
    middle = 0.875 * k * log(36)  # the mean of the loss: about half of it lies above
    for tolerance in (1e-6, 0.1):
        found = delta(event, middle, rtol=tolerance)
        assert found.lower <= 0.5 + 2 / k**0.5
        assert found.upper >= 0.5 - 2 / k**0.5


ONE = to_sensitivity(1)


def test_the_contour_is_bisected_where_newton_goes_astray() -> None:
    event = Subsampled(DiscreteGaussianEvent(Fraction(4182, 10000), ONE), Fraction(1, 10**4)) * 1000
    found = epsilon(event, 1.1e-4)
    assert found.width < 1e-3 * found.upper
    assert delta(event, found.upper).lower <= 1.1e-4 <= delta(event, found.lower).upper


def test_a_saddle_point_next_to_0_gives_an_interval_and_no_warning() -> None:
    """c² + s² is next to 0 there, and a quotient by it is past the largest double."""
    found = epsilon(repeat(Subsampled(GaussianEvent(Fraction(1), to_sensitivity(1)), Fraction(1, 100)), 2**49), 1e-6)
    assert found.lower <= found.upper < inf
