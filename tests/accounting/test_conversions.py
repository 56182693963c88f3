"""Conversions between notions: the rows of docs/facts.md, and properties that tie the two directions together."""

from fractions import Fraction
from math import inf, log, sqrt

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.accounting import conversions
from discreet.accounting.pld.gaussian import gaussian_epsilon
from discreet.accounting.renyi import find_best_order, renyi_curve
from discreet.errors import BadParameter
from discreet.events import Claim, GaussianEvent, LaplaceEvent, Subsampled
from discreet.units import to_sensitivity

MILLIONTH = Fraction(1, 10**6)
rhos = st.floats(1e-8, 50)
deltas = st.floats(1e-12, 0.4)


def test_facts_zcdp_by_cks_rho_one_tenth():
    assert 2.141938928385473 <= conversions.epsilon_from_zcdp(Fraction(1, 10), MILLIONTH) <= 2.141938928385475


def test_facts_rho_for_epsilon_one():
    assert 0.0243559703595382 <= conversions.rho_within(1, MILLIONTH) <= 0.024355970359538373


@pytest.mark.parametrize(("k", "classic", "tight"), [(100, 0.24118, 0.17751), (500, 0.54274, 0.42332)])
def test_facts_sigma_200_by_other_guarantees(k, classic, tight):
    rho = Fraction(k, 2 * 200**2)
    assert round(conversions.epsilon_from_zcdp_classic(rho, 1e-5), 5) == classic
    assert round(conversions.epsilon_from_zcdp(rho, 1e-5), 5) == tight
    exact = gaussian_epsilon(sqrt(k) / 200, 1e-5)
    assert exact.upper < tight < classic
    assert find_best_order(GaussianEvent(Fraction(200), to_sensitivity(1)) * k, 1e-5).epsilon == pytest.approx(
        tight, abs=6e-6
    )


def test_erratum_4_order_60_touches_zcdp_near_265_and_order_20_near_2551():
    """[N2] says α = 20 touches near k = 300. The line of order α touches where kρ = ln(1/δ)/(α−1)²."""
    step, delta = Fraction(1, 2 * 200**2), 1e-5
    for order, near in ((60, 265), (20, 2551)):
        gaps = {}
        for k in range(near - 200, near + 200):
            fixed = conversions.epsilon_from_rdp_classic(order, order * k * step, delta)
            gaps[k] = fixed - conversions.epsilon_from_zcdp_classic(k * step, delta)
        best = min(gaps, key=gaps.__getitem__)
        assert abs(best - near) <= 1
        assert 0 <= gaps[best] < 1e-6
    twenty_at_300 = conversions.epsilon_from_rdp_classic(20, 20 * 300 * step, delta)
    assert twenty_at_300 > conversions.epsilon_from_zcdp_classic(300 * step, delta) * 1.4


@given(rho=rhos, delta=deltas)
@settings(max_examples=60, deadline=None)
def test_tight_is_below_classic_and_above_the_exact_gaussian(rho, delta):
    tight, classic = conversions.epsilon_from_zcdp(rho, delta), conversions.epsilon_from_zcdp_classic(rho, delta)
    assert gaussian_epsilon(sqrt(2 * rho) * (1 - 1e-12), delta).lower <= tight <= classic


@given(rho=rhos, delta=deltas)
@settings(max_examples=20, deadline=None)
def test_the_order_found_is_the_best_one(rho, delta):
    """The search against a dense grid in high precision."""
    with mp.workdps(30):
        tail = -mp.log(mp.mpf(delta))
        grid = (mp.mpf(10) ** (mp.mpf(j) / 40) for j in range(-320, 360))
        least = min(mp.mpf(rho) * (1 + t) + (tail - mp.log(1 + t)) / t - mp.log(1 + 1 / t) for t in grid)
        assert conversions.epsilon_from_zcdp(rho, delta) <= max(least, 0) * (1 + mp.mpf(10) ** -12)


@given(epsilon=st.floats(1e-4, 50), delta=deltas)
@settings(max_examples=12, deadline=None)
def test_budgets_round_down(epsilon, delta):
    """Whoever spends the whole budget stays within (ε, δ)."""
    assert conversions.epsilon_from_zcdp(conversions.rho_within(epsilon, delta), delta) <= epsilon
    assert conversions.epsilon_from_zcdp_classic(conversions.rho_within_classic(epsilon, delta), delta) <= epsilon * (
        1 + 1e-14
    )
    assert conversions.rho_within_classic(epsilon, delta) <= conversions.rho_within(epsilon, delta) * (1 + 1e-12)
    assert (
        conversions.epsilon_from_gdp(conversions.mu_within(epsilon, delta), delta) <= epsilon * (1 + 1e-10) + 1e-13
    )  # two searches
    spend = conversions.divergence_within(8, epsilon, delta)
    if spend >= 0:
        assert conversions.epsilon_from_rdp(8, spend, delta) <= epsilon * (1 + 1e-15)


@given(order=st.floats(1.01, 500), divergence=st.floats(0, 20), delta=deltas)
@settings(max_examples=60, deadline=None)
def test_improved_rdp_is_below_classic_and_inverts(order, divergence, delta):
    improved = conversions.epsilon_from_rdp(order, divergence, delta)
    assert improved <= conversions.epsilon_from_rdp_classic(order, divergence, delta)
    assert conversions.delta_from_rdp(order, divergence, improved) <= delta * (1 + 1e-9)


def test_improved_rdp_holds_for_a_pair_that_is_summed_exactly():
    """δ of randomised response by the hockey-stick, against δ through its divergence at several orders."""
    for epsilon in (0.1, 0.5, 0.9):
        truth = mp.mpf(3) / 4 - mp.e**epsilon / 4
        for order in (1.5, 2, 5, 20):
            moment = mp.mpf(1) / 4 * (mp.mpf(3) ** order + mp.mpf(3) ** (1 - order))
            divergence = mp.log(moment) / (order - 1)
            assert truth <= conversions.delta_from_rdp(order, float(divergence) * (1 + 1e-12), epsilon)


def test_tcdp_row_of_facts_has_two_branches_that_meet():
    rho, delta = Fraction(1, 100), 1e-5
    meet = 1 + sqrt(log(1 / delta) / 0.01)
    beyond, within = (
        conversions.epsilon_from_tcdp(rho, meet * 1.001, delta),
        conversions.epsilon_from_tcdp(rho, meet * 0.999, delta),
    )
    assert beyond == conversions.epsilon_from_zcdp_classic(rho, delta) == conversions.epsilon_from_tcdp(rho, inf, delta)
    assert beyond < within < beyond * 1.0001
    short = conversions.epsilon_from_tcdp(rho, 5, delta)
    assert abs(short - (0.05 + log(1e5) / 4)) < 1e-12


def test_pure_to_zcdp_both_ways():
    assert conversions.rho_from_pure(1) <= conversions.rho_from_pure_classic(1) == Fraction(1, 2)
    budget = conversions.pure_within(0.1)
    assert conversions.rho_from_pure(budget) <= Fraction(0.1) < conversions.rho_from_pure(budget * (1 + 1e-12))
    assert conversions.rho_from_gdp(Fraction(1, 10)) == Fraction(1, 200)


def test_infinity_and_nothing_pass_through():
    assert (
        conversions.epsilon_from_zcdp(inf, 0.1)
        == conversions.epsilon_from_rdp(2, inf, 0.1)
        == conversions.epsilon_from_gdp(inf, 0.1)
        == inf
    )
    assert conversions.epsilon_from_tcdp(inf, 3, 0.1) == conversions.rho_from_pure(inf) == inf
    assert conversions.delta_from_rdp(2, inf, 1) == 1
    assert conversions.epsilon_from_zcdp(0, 0.1) == conversions.epsilon_from_gdp(0, 0.1) == 0


@pytest.mark.parametrize("delta", [0, 1, -0.1, 2, float("nan")])
def test_delta_must_be_a_proper_probability(delta):
    for convert in (
        conversions.epsilon_from_zcdp,
        conversions.epsilon_from_zcdp_classic,
        conversions.epsilon_from_gdp,
        conversions.rho_within,
    ):
        with pytest.raises(BadParameter):
            convert(0.1, delta)


def test_negative_amounts_are_refused():
    with pytest.raises(BadParameter):
        conversions.epsilon_from_zcdp(-1, 0.1)
    with pytest.raises(BadParameter):
        conversions.epsilon_from_rdp(1, 0.1, 0.1)


def test_tiny_delta_is_no_obstacle():
    assert conversions.epsilon_from_zcdp(Fraction(1, 10), Fraction(1, 10**300)) == pytest.approx(16.69, rel=0.01)


def test_best_order_bounds_the_sampled_gaussian_of_facts():
    """RDP costs more than the exact 6.18771239, and not absurdly more."""
    best = find_best_order(Subsampled(GaussianEvent(Fraction(1), to_sensitivity(1)), Fraction(1, 100)) * 10**4, 1e-5)
    assert 6.18771239 < best.epsilon < 6.8


def test_best_order_bounds_the_laplace_of_facts():
    best = find_best_order(LaplaceEvent(Fraction(sqrt(1000)), to_sensitivity(1)) * 1000, 1e-6)
    assert 4.847031694251 < best.epsilon < 5.2


def test_best_order_is_infinite_where_every_order_is():
    assert find_best_order(Claim(Fraction(1), MILLIONTH), 1e-5).epsilon == inf


def test_the_curve_is_the_divergence_at_each_order():
    assert [value for _, value in renyi_curve(GaussianEvent(Fraction(2), to_sensitivity(1)), [2, 8])] == [0.25, 1.0]


def test_best_order_by_the_classic_conversion_of_facts():
    """[N2]: 0.54274 at α = 44 for 500 Gaussians of σ = 200, by trying all orders from 2 to 100."""
    event = GaussianEvent(Fraction(200), to_sensitivity(1)) * 500
    best = find_best_order(event, 1e-5, range(2, 101), refine=0, classic=True)
    tried = {order: order * 500 / 80_000 + log(1e5) / (order - 1) for order in range(2, 101)}
    assert best.order == min(tried, key=tried.__getitem__) == 44
    assert best.epsilon == pytest.approx(tried[44], rel=1e-12)
    assert round(best.epsilon, 5) == 0.54274
    assert str(best) == "ε = 0.5427 at α = 44", "the chosen order is printed"
    improved = find_best_order(event, 1e-5, range(2, 101), refine=0)
    assert improved.epsilon < best.epsilon
    refined = find_best_order(event, 1e-5, classic=True)
    assert conversions.epsilon_from_zcdp_classic(Fraction(500, 80_000), 1e-5) == pytest.approx(refined.epsilon, rel=1e-9)
