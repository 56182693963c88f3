"""Repeated exponential mechanisms: the certified curve against every adaptive strategy over a list of pairs."""

from fractions import Fraction
from functools import cache
from math import exp

import numpy as np
import pytest
from flint import arb

from discreet.accounting import ranges
from discreet.accounting.curve import delta, epsilon
from discreet.accounting.dominating_pairs import build_direction
from discreet.accounting.ranges import RepeatedRange, SampledRange
from discreet.events import ExponentialEvent, Subsampled, compose
from tests.support.outcome_oracle import Outcomes, adaptive_delta, composed, hockey_stick
from tests.support.rounds import at_night

POINTS = (0.0, 0.1, 0.5, 0.9, 1.3)


def pair(eps: float, u: float) -> Outcomes:
    """Two candidates whose log odds move by ε, so that the losses are u and u − ε."""
    q = (exp(-u) - exp(-eps)) / (1 - exp(-eps))
    return [(arb(q * exp(u)), arb(q)), (arb((1 - q) * exp(u - eps)), arb(1 - q))]


def pairs(eps: float, count: int) -> list[Outcomes]:
    return [pair(eps, eps * i / count) for i in range(count + 1)]


@pytest.mark.parametrize(("eps", "times", "count"), [(1.0, 2, 64), (2.0, 2, 64), (0.7, 3, 12), (0.1, 2, 64)])
def test_no_adaptive_strategy_is_outside(eps: float, times: int, count: int) -> None:
    some = pairs(eps, count)
    for share in POINTS:
        at = share * eps
        found = RepeatedRange(eps, times).bound_delta(at)
        best = adaptive_delta(some, times, at)
        assert best <= found[1] * (1 + 1e-12)
        assert best >= found[0] * (1 - 20 / count**2) - 1e-9  # a list of pairs comes close
        assert found[1] - found[0] <= 1e-4 * found[1] + 1e-9
        mutant = found[0] * 1.02  # and would notice two per cent
        assert at >= times * eps * 0.9 or best < mutant


def test_adapting_is_worth_something() -> None:
    """The mutant composes the same pair every time, the best one: it is attained, but not the worst."""
    eps, times, at = 1.0, 3, 1.2
    same = max(float(hockey_stick(composed([one] * times), Fraction(at)).mid()) for one in pairs(eps, 64))
    low, high = RepeatedRange(eps, times).bound_delta(at)
    assert same < low < high


@cache
def list_fine_bounds(eps: float, times: int, at: tuple[float, ...]) -> list[tuple[float, float]]:
    assert ranges._MOST_CELLS > 1000
    return [RepeatedRange(eps, times).bound_delta(x) for x in at]


@pytest.mark.parametrize("cells", [8, 20, 100])
def test_a_coarser_lattice_is_wider_and_as_true(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for eps, times in ((1.0, 2), (0.3, 10), (3.0, 5)):
        fine = list_fine_bounds(eps, times, tuple(x * eps * times / 2 for x in POINTS))
        monkeypatch.setattr(ranges, "_MOST_CELLS", cells)
        coarse = [RepeatedRange(eps, times).bound_delta(x * eps * times / 2) for x in POINTS]
        monkeypatch.undo()
        for (low, high), (least, most) in zip(fine, coarse, strict=True):
            assert least <= high
            assert low <= most
        # The mutant takes the values on the lattice, which are a lower end, for an upper one.
        assert cells > 20 or any(least < low for (low, _), (least, _) in zip(fine, coarse, strict=True))


@pytest.mark.parametrize(("eps", "times"), [(0.3, 2), (1.0, 2), (3.0, 2), (1.0, 5), (6.0, 3)])
@pytest.mark.parametrize("cells", [8, 13])
@pytest.mark.parametrize("points", [11, at_night(41)])
def test_a_coarse_lattice_holds_a_fine_one_at_every_ratio(
    eps: float, times: int, points: int, cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also below ε = 0 and close to the largest loss of all, where V is known without a lattice."""
    at = np.linspace(-0.999, 0.999, points) * eps * times
    fine = list_fine_bounds(eps, times, tuple(at.tolist()))
    monkeypatch.setattr(ranges, "_MOST_CELLS", cells)
    coarse = [RepeatedRange(eps, times).bound_delta(x) for x in at]
    for (low, high), (least, most) in zip(fine, coarse, strict=True):
        assert 0 < low <= most
        assert least <= high


def test_one_mechanism_on_a_coarse_lattice_has_its_closed_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "_MOST_CELLS", 8)
    for eps in (0.2, 1.0, 5.0):
        for x in np.linspace(-0.999, 0.999, 60) * eps:
            low, high = RepeatedRange(eps, 1).bound_delta(x)
            assert low <= (1 - exp((x - eps) / 2)) ** 2 / (1 - exp(-eps)) <= high


def test_epsilon_and_delta_agree() -> None:
    for eps, times, target in ((Fraction(1), 10, 1e-6), (Fraction(1, 10), 100, 1e-6), (Fraction(1, 2), 4, 1e-3)):
        event = times * ExponentialEvent(eps)
        found = epsilon(event, target)
        assert found.upper <= found.lower * 1.002
        assert delta(event, found.upper).lower <= target <= delta(event, found.lower).upper


def test_one_mechanism_has_its_closed_form() -> None:
    """(1 − e^{(x−ε)/2})²/(1 − e^{-ε}), `pld.laplace`."""
    for x in (0.0, 0.3, 0.8):
        low, high = RepeatedRange(1.0, 1).bound_delta(x)
        assert low <= (1 - exp((x - 1) / 2)) ** 2 / (1 - exp(-1)) <= high


def test_samples_have_neighbours_that_are_attained() -> None:
    """The list of ranges bounds from below; a mutant, of a range twice as wide, would not be below the upper end."""
    event = compose(*[Subsampled(ExponentialEvent(Fraction(1)), Fraction(1, 10))] * 10)
    for removed in (True, False):
        one = build_direction(event, removed=removed)
        assert len(one.also_attained) > 4
    found = epsilon(event, 1e-6)
    wide = epsilon(10 * Subsampled(ExponentialEvent(Fraction(2)), Fraction(1, 10)), 1e-6)
    assert 0 < found.lower < found.upper < wide.lower


def sampled_pairs(eps: float, rate: float, count: int, removed: bool) -> list[Outcomes]:
    mixed = [[((1 - rate) * b + rate * a, b) for a, b in one] for one in pairs(eps, count)]
    return mixed if removed else [[(b, a) for a, b in one] for one in mixed]


@pytest.mark.parametrize("cells", [160, 9])
@pytest.mark.parametrize("removed", [True, False])
@pytest.mark.parametrize(("eps", "times", "rate"), [(1.0, 1, 0.5), (1.0, 2, 0.1), (2.0, 2, 0.7), (0.3, 2, 0.02)])
def test_no_adaptive_strategy_on_samples_is_outside(
    eps: float, times: int, rate: float, removed: bool, cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "_MOST_SAMPLED_CELLS", cells)
    some, one = sampled_pairs(eps, rate, 48, removed), SampledRange(eps, times, rate, removed)
    for share in (0.0, 0.2, 0.45, 0.7):
        at = share * times * 0.8 * float(np.log1p(rate * np.expm1(eps)))
        low, high = one.bound_delta(at)
        best = adaptive_delta(some, times, at)
        assert best <= high * (1 + 1e-12)
        assert low <= best * (1 + 20 / 48**2) + 1e-9
        assert cells < 100 or best < 1e-6 or high < 1.02 * best  # and two per cent are noticed
        assert cells < 100 or not removed or best < 1e-6 or low > 0.97 * best


def test_what_lies_between_two_cuts_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutant: the largest mean over the cuts only, where few lattice points make few cuts."""
    monkeypatch.setattr(ranges, "_MOST_SAMPLED_CELLS", 8)
    one, rate = SampledRange(1.0, 1, 0.5, removed=True), 0.5
    means, hidden, left, right = one._matrices()
    monkeypatch.setattr(SampledRange, "_matrices", lambda _: (means, 0 * hidden, left, right))
    at = [x * one.step for x in range(6)]  # on the lattice one round is exact, but for what is hidden
    best = [adaptive_delta(sampled_pairs(1.0, rate, 400, removed=True), 1, x) for x in at]
    assert any(truth > one.bound_delta(x)[1] * (1 + 1e-9) for truth, x in zip(best, at, strict=True))


def test_the_interval_of_sampled_rounds_is_narrow() -> None:
    found = epsilon(100 * Subsampled(ExponentialEvent(Fraction(1)), Fraction(1, 100)), 1e-6)
    assert found.upper <= 1.006 * found.lower
    assert found.upper < 0.87 * 0.2452  # what one pair that dominates every round gives


@pytest.mark.parametrize("removed", [True, False])
@pytest.mark.parametrize(("eps", "times", "rate"), [(1.0, 6, 0.1), (0.3, 40, 0.5), (4.0, 3, 0.01), (1.0, 1, 0.1)])
def test_sums_out_of_reach_change_nothing(eps, times, rate, removed, monkeypatch):
    """Where losses cannot add up to x, V need not be computed. Mutant: a reach that is too short loses what is attained."""
    rounds, honest = SampledRange(eps, times, rate, removed), SampledRange._find_open
    most = float(np.log1p(rate * np.expm1(eps)) if removed else -np.log1p(rate * np.expm1(-eps)))
    at = (0.0, 0.1 * times * most, 0.3 * times * most)
    found = [rounds.bound_delta(x) for x in at]
    monkeypatch.setattr(SampledRange, "_find_open", lambda self, x, done: (0, len(x)))
    for x, (low, high) in zip(at, found, strict=True):
        all_low, all_high = rounds.bound_delta(x)
        assert low == pytest.approx(all_low, rel=1e-9, abs=1e-13)
        assert all_high * (1 - 1e-5) - 1e-15 < high <= all_high * (1 + 1e-9)
    monkeypatch.setattr(SampledRange, "_find_open", lambda self, x, done: honest(self, x, done / 4))
    lost = rounds.bound_delta(at[2])[1]
    assert lost < (found[2][0] if removed else found[2][1])
