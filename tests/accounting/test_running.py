"""A running total has the ε of the whole composition."""

from fractions import Fraction
from math import inf

from discreet._numbers import Bounds
from discreet.accounting.curve import epsilon
from discreet.accounting.running import RunningTotal
from discreet.events import (
    DiscreteGaussianEvent,
    GaussianEvent,
    LaplaceEvent,
    Parallel,
    RandomizedResponseEvent,
    Subsampled,
    compose,
)
from discreet.units import Sensitivity, count, to_sensitivity

ONE, THREE = to_sensitivity(1), Sensitivity(l0=3, linf=2)


def ordered(first: Bounds, second: Bounds) -> bool:
    """Whether first ≤ second is possible, given what is known."""
    return first.lower <= second.upper * (1 + 1e-12)


def test_a_running_total_has_the_epsilon_of_the_composition() -> None:
    events = [[LaplaceEvent, DiscreteGaussianEvent, GaussianEvent][i % 3](Fraction(40 + i), ONE) for i in range(90)]
    events.insert(5, Subsampled(GaussianEvent(Fraction(3), ONE), Fraction(1, 50)))
    total = RunningTotal.for_delta(1e-6)
    for i, event in enumerate(events):
        total = total.append(event, 1 + i % 2)
        if i in (3, 35, 90):
            whole = epsilon(compose(*(f * (1 + k % 2) for k, f in enumerate(events[: i + 1]))), 1e-6)
            found = total.epsilon()
            assert ordered(whole, found)
            assert ordered(found, whole)
            assert found.width <= 1e-6 * found.upper


def test_a_running_total_that_costs_nothing_has_epsilon_zero() -> None:
    total = RunningTotal.for_delta(0.5)
    for i in range(40):
        total = total.append(LaplaceEvent(Fraction(1000 + i), ONE))
    assert total.epsilon().lower == 0
    assert total.epsilon().upper < 0.1


GAUSSIAN, LAPLACE = GaussianEvent(Fraction(1), count()), LaplaceEvent(Fraction(1), count())


def test_the_running_total_charges_one_branch_not_all() -> None:
    branches = Parallel((GAUSSIAN, LAPLACE, RandomizedResponseEvent(Fraction(3, 4), 2)))
    total = RunningTotal.for_delta(1e-6)
    for _ in range(3):
        total = total.append(branches)
    found, worst = total.epsilon(), epsilon(GAUSSIAN * 3, 1e-6)
    assert found.lower <= epsilon(branches * 3, 1e-6).upper
    assert worst.lower * (1 - 1e-6) <= found.upper < inf
