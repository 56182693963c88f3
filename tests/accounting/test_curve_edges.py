"""The certified curve at the edges: parameters far from any that noise has, targets exactly at a claim's δ, long work."""

from fractions import Fraction
from math import inf

import pytest

from discreet.accounting.curve import delta, epsilon
from discreet.accounting.pld.gaussian import gaussian_epsilon
from discreet.accounting.running import RunningTotal
from discreet.events import (
    BinomialEvent,
    Claim,
    DiscreteGaussianEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    OptimalPartitionSelectionEvent,
    RandomizedResponseEvent,
    Subsampled,
)
from discreet.units import Sensitivity, to_sensitivity

ONE = to_sensitivity(1)
WIDE = Sensitivity(l0=10**400, linf=1)


def gaussian(sigma: Fraction | int) -> GaussianEvent:
    return GaussianEvent(Fraction(sigma), ONE)


def test_a_running_total_that_costs_nothing_can_be_read() -> None:
    total = RunningTotal.for_delta(0.5)
    for i in range(40):
        total = total.append(LaplaceEvent(Fraction(1000 + i), ONE))
    assert total.epsilon().lower == 0
    assert total.epsilon().upper < 0.1


def test_a_claim_at_its_own_delta_costs_its_epsilon() -> None:
    claim = Claim(Fraction(1), Fraction(1e-6))
    found = epsilon(claim, 1e-6)
    assert 1 in found
    assert found.width < 1e-12
    assert epsilon(claim, Fraction(1e-6) - Fraction(1, 10**40)).lower == inf
    above = epsilon(claim, Fraction(1e-6) + Fraction(1, 10**25))
    assert 0.999 < above.lower <= above.upper <= found.upper


def test_two_claims_at_their_exact_total_cost_the_sum() -> None:
    two = 2 * Claim(Fraction(1), Fraction(1, 1000)) + Claim(Fraction(3), Fraction(0))
    found = epsilon(two, 1 - Fraction(999, 1000) ** 2)
    assert 5 in found
    assert found.width < 1e-10


@pytest.mark.parametrize("times", [10**19, 10**400])
def test_more_runs_than_a_double_counts_are_never_free(times: int) -> None:
    assert epsilon(LaplaceEvent(Fraction(1), ONE) * times, 1e-6).upper == inf
    assert epsilon(LaplaceEvent(Fraction(1), ONE) * times + Claim(Fraction(1), Fraction(1e-6)), 1e-6).upper == inf


@pytest.mark.parametrize("times", [5000, 10000, 10**8])
def test_many_loud_gaussians(times: int) -> None:
    found, truth = epsilon(gaussian(1) * times, 1e-6), gaussian_epsilon(Fraction(times**0.5), 1e-6)
    assert found.lower <= truth.upper * (1 + 1e-12)
    assert found.upper >= truth.lower * (1 - 1e-12)
    assert found.width <= 1e-9 * found.upper


@pytest.mark.parametrize(
    ("loss", "eps", "at_one"),
    [
        (Subsampled(gaussian(Fraction(1, 1000)), Fraction(1, 10)) * 3, 1000, 0.271),
        (Subsampled(gaussian(1), Fraction(1, 10**400)), 0, 0),
        (Subsampled(gaussian(1), Fraction(1, 10**400)) * 3, 0, 0),
        (OptimalPartitionSelectionEvent(Fraction(1), Fraction(1, 10**6), 10**400), inf, 1),
        (LaplaceEvent(Fraction(1), WIDE), inf, 1),
        (RandomizedResponseEvent(Fraction(1), 2), inf, 1),
        (RandomizedResponseEvent(Fraction(0), 2), inf, 1),
        (RandomizedResponseEvent(Fraction(0), 3), inf, 0.5),  # an answer that one of the two inputs never gives has mass 1/2
    ],
)
def test_what_doubles_cannot_hold_is_answered_soundly(loss: Event, eps: float, at_one: float) -> None:
    found = epsilon(loss, 1e-6)
    assert found.upper >= eps >= found.lower
    assert at_one in delta(loss, 1)


def test_very_many_coins_agree_with_many_and_with_the_gaussian_limit() -> None:
    exact = epsilon(BinomialEvent(10**7, to_sensitivity(100)), 1e-6)
    shared = epsilon(BinomialEvent(10**7 + 1, to_sensitivity(100)), 1e-6)
    assert shared.lower < exact.lower <= exact.upper < shared.upper
    assert shared.width < 0.01 * shared.upper
    limit = gaussian_epsilon(2 * Fraction(10**9) ** -1 * Fraction(31622776, 1000), 1e-6)
    found = epsilon(BinomialEvent(10**9, ONE), 1e-6)
    assert 0.99 * limit.lower < found.upper < 1.02 * limit.upper


@pytest.mark.parametrize(("n", "shift"), [(10**8, 10**5), (10**18, 1), (10**18, 10**17)])
def test_no_number_of_coins_hangs(n: int, shift: int) -> None:
    found = epsilon(BinomialEvent(n, to_sensitivity(shift)), 1e-6)
    assert found.lower <= found.upper
    if n == 10**8:  # sigma is 5000: μ is 20, where the Gaussian's ε is about 293
        assert 290 < found.lower < found.upper < 300


def test_the_line_is_bisected_where_newton_goes_astray() -> None:
    loss = Subsampled(DiscreteGaussianEvent(Fraction(4182, 10000), ONE), Fraction(1, 10**4)) * 1000
    found = epsilon(loss, 1.1e-4)
    assert found.width < 1e-3 * found.upper
    assert delta(loss, found.upper).lower <= 1.1e-4 <= delta(loss, found.lower).upper
