"""Gaussian noise: the classical rules and the exact one, and where the classical ones fail."""

from fractions import Fraction
from math import log, sqrt

import pytest

from discreet import (
    BadParameter,
    Gaussian,
    Sensitivity,
    TheoremNotApplicable,
    gaussian_delta,
    renyi,
    zcdp,
)
from discreet.units import counts, to_sensitivity


def test_gaussian_classical_rules_and_the_exact_one() -> None:
    epsilon, delta = 0.5, 1e-5
    classical = float(Gaussian.for_epsilon(epsilon, delta, 3, "classical-1.25").sigma)
    assert classical == pytest.approx(3 * sqrt(2 * log(1.25 / delta)) / epsilon, rel=1e-14)
    other = float(Gaussian.for_epsilon(epsilon, delta, 3, "classical-2").sigma)
    assert other == pytest.approx(3 * sqrt(2 * log(2 / delta)) / epsilon, rel=1e-14)
    exact = float(Gaussian.for_epsilon(epsilon, delta, 3).sigma)
    assert exact < classical < other
    bounds = gaussian_delta(3 / Fraction(exact), Fraction(epsilon))
    assert bounds.upper <= delta < bounds.upper * (1 + 1e-9)


def test_erratum_3_classical_gaussian_needs_epsilon_at_most_1() -> None:
    for epsilon, true_delta in ((10, 2.3e-5), (20, 1.5e-3)):
        for rule in ("classical-1.25", "classical-2"):
            with pytest.raises(TheoremNotApplicable, match="ε ≤ 1"):
                Gaussian.for_epsilon(epsilon, 1e-5, 1, rule)  # type: ignore[arg-type]
        sigma = sqrt(2 * log(1.25 / 1e-5)) / epsilon
        assert gaussian_delta(1 / sigma, epsilon).lower == pytest.approx(true_delta, rel=0.02)
        exact = Gaussian.for_epsilon(epsilon, 1e-5, 1)
        assert gaussian_delta(1 / exact.sigma, epsilon).upper <= 1e-5


def test_hazard_classical_gaussian_at_20_and_50_is_150_and_58600_times_the_claim() -> None:
    for epsilon, factor in ((20, 150), (50, 58_600)):
        sigma = sqrt(2 * log(1.25 / 1e-5)) / epsilon
        assert float(gaussian_delta(1 / sigma, epsilon)) / 1e-5 == pytest.approx(factor, rel=0.03)


@pytest.mark.parametrize(("epsilon", "delta"), [(1, Fraction(1, 10**308)), (10**400, 1e-6), (1e-200, 1e-100)])
def test_gaussian_targets_past_the_doubles_are_refused_or_met(epsilon, delta) -> None:  # type: ignore[no-untyped-def]
    try:
        m = Gaussian.for_epsilon(epsilon, delta, 1)
    except BadParameter:
        return
    assert gaussian_delta(1 / m.sigma, epsilon).upper <= delta


@pytest.mark.parametrize("sensitivity", [1, 3, counts(7), Sensitivity(l1=5, l2=2)], ids=str)
def test_gaussian_for_rho_and_for_renyi_of_facts(sensitivity: Sensitivity | int) -> None:
    """[N2]: σ² = Δ₂²/2ρ and σ² = Δ₂²α/2ε̄. The event costs at most that, and 1e-9 less noise costs more."""
    for rho in (1e-5, 0.1, 2):
        mechanism = Gaussian.for_rho(rho, sensitivity)
        l2 = float(to_sensitivity(sensitivity).l2)
        assert float(mechanism.sigma) == pytest.approx(l2 / sqrt(2 * rho), rel=1e-14)
        assert zcdp(mechanism.event(sensitivity)) <= Fraction(str(rho))
        assert zcdp(Gaussian(mechanism.sigma * (1 - Fraction(1, 10**9))).event(sensitivity)) > Fraction(str(rho))
    for alpha, epsilon in ((2, 0.1), (20, 1), (1.5, 0.01)):
        mechanism = Gaussian.for_renyi(alpha, epsilon, sensitivity)
        assert float(mechanism.sigma) == pytest.approx(l2 * sqrt(alpha / (2 * epsilon)), rel=1e-14)
        assert renyi(mechanism.event(sensitivity), alpha) <= Fraction(str(epsilon))
        assert renyi(Gaussian(mechanism.sigma * (1 - Fraction(1, 10**9))).event(sensitivity), alpha) > Fraction(str(epsilon))


def test_gaussian_for_rho_on_reals_pays_for_the_grid() -> None:
    third = Fraction(1, 3)
    for mechanism in (Gaussian.for_rho(0.1, third, reals=True), Gaussian.for_renyi(20, 2, third, reals=True)):
        assert zcdp(mechanism.event(third, grid=mechanism.grid)) <= Fraction(1, 10)
        assert mechanism.sigma > Gaussian.for_rho(0.1, third).sigma


@pytest.mark.parametrize("wrong", [0, -1, float("nan"), float("inf"), "1"])
def test_gaussian_for_rho_and_for_renyi_refuse_what_is_impossible(wrong: object) -> None:
    for build in (
        lambda: Gaussian.for_rho(wrong, 1),  # type: ignore[arg-type]
        lambda: Gaussian.for_renyi(20, wrong, 1),  # type: ignore[arg-type]
        lambda: Gaussian.for_renyi(wrong, 1, 1),  # type: ignore[arg-type]
    ):
        with pytest.raises(BadParameter):
            build()
    with pytest.raises(BadParameter, match="alpha is 1: must exceed 1"):
        Gaussian.for_renyi(1, 1, 1)
