"""GDP against trade-off curves that are computed independently."""

from fractions import Fraction
from importlib import import_module
from math import inf

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.accounting.gdp import gdp, mu_squared
from discreet.accounting.pld.gaussian import gaussian_delta
from discreet.events import (
    Claim,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    GaussianEvent,
    Group,
    LaplaceEvent,
    Subsampled,
)
from discreet.units import Sensitivity, to_sensitivity
from tests.support.every_event import EVERY

gdp_module = import_module("discreet.accounting.gdp")  # the package has a function of that name


def phi(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def tradeoff(mu, alpha):
    """G_μ(α) = Φ(Φ⁻¹(1−α) − μ)."""
    quantile = mp.sqrt(2) * mp.erfinv(1 - 2 * alpha)
    return phi(quantile - mu)


@pytest.mark.parametrize("name", EVERY)
def test_every_event_has_a_mu(name):
    assert gdp(EVERY[name]) >= 0


@pytest.mark.parametrize(
    "epsilon", [Fraction(1, 10**9), Fraction(1, 100), Fraction(1), Fraction(4), Fraction(40), Fraction(400)]
)
def test_pure_events_meet_the_gaussian_at_its_fixed_point(epsilon):
    """μ = −2Φ⁻¹(1/(1 + e^ε)), rounded up by less than 1e-12."""
    with mp.workdps(230):
        mu = gdp(Claim(epsilon, Fraction(0)))
        half = mp.mpf(mu.numerator) / mu.denominator / 2
        target = 1 / (1 + mp.e ** (mp.mpf(epsilon.numerator) / epsilon.denominator))
        assert phi(-half) <= target < phi(-half * (1 - mp.mpf(10) ** -12))


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(3)])
def test_laplace_curve_lies_above_its_gaussian(epsilon):
    with mp.workdps(30):
        mu = gdp(LaplaceEvent(1 / epsilon, to_sensitivity(1)))
        m, e = mp.mpf(mu.numerator) / mu.denominator, mp.mpf(epsilon.numerator) / epsilon.denominator
        touched = mp.mpf(1)
        for i in range(1, 400):
            alpha = mp.mpf(i) / 400
            if alpha < mp.e**-e / 2:
                beta = 1 - mp.e**e * alpha
            else:
                beta = mp.e**-e / (4 * alpha) if alpha <= 0.5 else mp.e**-e * (1 - alpha)
            assert tradeoff(m, alpha) <= beta + mp.mpf(10) ** -25
            touched = min(touched, beta - tradeoff(m, alpha))
        assert touched < 1e-3  # no smaller μ would do


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(2), Fraction(10)])
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_discrete_laplace_corners_lie_above_its_gaussian(scale, steps):
    with mp.workdps(30):
        mu = gdp(DiscreteLaplaceEvent(scale, to_sensitivity(steps)))
        m, a = mp.mpf(mu.numerator) / mu.denominator, mp.e ** (-mp.mpf(scale.denominator) / scale.numerator)

        def at_least(t):
            return a**t / (1 + a) if t >= 0 else 1 - a ** (1 - t) / (1 + a)

        for t in range(-30, 40):
            assert tradeoff(m, at_least(t)) <= 1 - at_least(t - steps) + mp.mpf(10) ** -25


def test_the_discrete_gaussian_is_not_delta_over_sigma_gdp():
    """At σ = 1 the total variation is 0.3989 against the Gaussian's 0.3829, so Δ/σ would be a lie."""
    weights = [mp.e ** (-(mp.mpf(k) ** 2) / 2) for k in range(-40, 41)]
    variation = weights[40] / mp.fsum(weights)  # P(0 ≤ k < 1): the mass that a shift by one moves across
    assert float(variation) > gaussian_delta(1, 0).upper + 0.01
    assert gdp(DiscreteGaussianEvent(Fraction(1), to_sensitivity(1))) == inf


def test_gaussians_compose_losslessly_and_groups_scale():
    one = GaussianEvent(Fraction(10), Sensitivity(l2_squared=2))
    assert mu_squared(one * 50) == 1
    assert mu_squared(Group(one, 3)) == 9 * mu_squared(one)
    assert mu_squared(Group(Subsampled(one, Fraction(1, 2)), 3)) == 9 * mu_squared(one)


def _wrongly_held(x):
    """Whether the series holds for a little more than √2π·(½ − Φ(−x)), and whether it fails for a little less."""
    with mp.workdps(80):
        truth = mp.sqrt(2 * mp.pi) * mp.erf(mp.mpf(x) / mp.sqrt(2)) / 2 * mp.mpf(2) ** 192
        above, below = int(mp.ceil(truth * (1 + mp.mpf(2) ** -75))), int(truth * (1 - mp.mpf(2) ** -65)) - 32
        return gdp_module._holds_by_series(x, above), not gdp_module._holds_by_series(x, below)


@given(st.floats(1e-30, 0.5))
@settings(max_examples=200, deadline=None)
def test_the_series_holds_where_it_is_proven_and_just_below(x):
    assert _wrongly_held(x) == (False, False)
    with mp.workdps(80):
        truth = mp.sqrt(2 * mp.pi) * mp.erf(mp.mpf(x) / mp.sqrt(2)) / 2 * mp.mpf(2) ** 192
        assert not gdp_module._holds_by_series(x, int(mp.ceil(truth)) + 1)


def test_a_series_cut_after_a_positive_term_would_be_noticed(monkeypatch):
    """Mutant: the sum is then above the truth."""
    monkeypatch.setattr(gdp_module, "_TERMS", 10)
    monkeypatch.setattr(gdp_module, "_NEGLIGIBLE", 0)
    assert _wrongly_held(0.5)[0]
