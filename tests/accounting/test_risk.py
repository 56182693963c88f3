"""The risk of an event against the trade-off curve of a Gaussian."""

from fractions import Fraction

from discreet.accounting.risk import advantage, trade_off, true_positive_rate
from discreet.events import (
    GaussianEvent,
)
from discreet.units import Sensitivity, to_sensitivity

ONE, THREE = to_sensitivity(1), Sensitivity(l0=3, linf=2)


def test_the_risk_of_a_gaussian_is_its_trade_off_curve() -> None:
    from scipy.stats import norm

    event = GaussianEvent(Fraction(2), ONE) * 4  # μ = 1
    exact = float(norm.cdf(norm.ppf(0.9) - 1))
    assert exact in trade_off(event, 0.1)
    assert 1 - exact in true_positive_rate(event, 0.1)
    assert trade_off(event, 0.1).width < 1e-3
    assert 2 * float(norm.cdf(0.5)) - 1 in advantage(event)
