"""Gaussian noise: the classical rules and the exact one, and where the classical ones fail."""

from fractions import Fraction
from math import log, sqrt

import pytest

from discreet import (
    BadParameter,
    Gaussian,
    TheoremNotApplicable,
    gaussian_delta,
)


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
