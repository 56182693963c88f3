"""The risk of an event against the trade-off curve of a Gaussian, and beliefs against Bayes' rule."""

from fractions import Fraction

import mpmath
import pytest

from discreet._numbers import Bounds
from discreet.accounting.risk import advantage, posterior_range, trade_off, true_positive_rate
from discreet.errors import BadParameter
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


def posterior_oracle(epsilon: Fraction, prior: Fraction) -> tuple[mpmath.mpf, mpmath.mpf]:
    """Bayes' rule on the two answers of randomised response at ε, which are as far apart as ε allows."""
    truth = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon.numerator) / epsilon.denominator))
    p = mpmath.mpf(prior.numerator) / prior.denominator
    yes = p * truth / (p * truth + (1 - p) * (1 - truth))
    no = p * (1 - truth) / (p * (1 - truth) + (1 - p) * truth)
    return no, yes


@pytest.mark.parametrize("epsilon", ["0", "1/1000", "0.1", "1", "5", "40"])
@pytest.mark.parametrize("prior", ["1/1000000", "0.01", "1/3", "1/2", "0.999"])
def test_beliefs_stay_within_the_range_and_randomised_response_reaches_it(epsilon: str, prior: str) -> None:
    low, high = posterior_oracle(Fraction(epsilon), Fraction(prior))
    found = posterior_range(Fraction(epsilon), Fraction(prior))
    assert found.lower <= low <= high <= found.upper
    assert found.lower >= low * (1 - mpmath.mpf(2) ** -50)
    assert found.upper <= high * (1 + mpmath.mpf(2) ** -50)


def test_certainty_stays_and_impossible_beliefs_are_refused() -> None:
    assert posterior_range(3, 0) == Bounds(0.0, 0.0)
    assert posterior_range(3, 1) == Bounds(1.0, 1.0)
    assert posterior_range(10**6, 0.5) == Bounds(0.0, 1.0)
    for epsilon, prior in ((-1, 0.5), (1, 1.5), (1, -0.1)):
        with pytest.raises(BadParameter):
            posterior_range(epsilon, prior)
