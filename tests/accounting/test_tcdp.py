"""tCDP against Rényi divergences at the orders below ω."""

from fractions import Fraction
from math import inf

import numpy as np
import pytest

from discreet.accounting.renyi import renyi
from discreet.accounting.tcdp import tcdp
from discreet.accounting.zcdp import zcdp
from discreet.errors import BadParameter
from discreet.events import (
    GaussianEvent,
    LaplaceEvent,
    RandomizedResponseEvent,
    Subsampled,
)
from discreet.units import Sensitivity, to_sensitivity
from tests.support.every_event import EVERY


@pytest.mark.parametrize("name", EVERY)
def test_tcdp_holds_at_orders_below_omega_and_never_exceeds_zcdp(name):
    rho = tcdp(EVERY[name], 6)
    assert rho <= zcdp(EVERY[name])
    for order in (Fraction(11, 10), Fraction(2), Fraction(7, 2), Fraction(599, 100)):
        assert float(renyi(EVERY[name], order)) <= float(rho * order) * (1 + 1e-9) + 1e-30


def test_tcdp_gains_from_sampling_where_zcdp_does_not():
    step = Subsampled(GaussianEvent(Fraction(2), to_sensitivity(1)), Fraction(1, 100))
    assert zcdp(step) == Fraction(1, 8)
    assert float(tcdp(step, 8)) < 2e-5
    assert tcdp(step, inf) == zcdp(step)
    assert abs(float(tcdp(step * 1000, 8)) / (1000 * float(tcdp(step, 8))) - 1) < 1e-12


@pytest.mark.parametrize("omega", [Fraction(6, 5), 2, 3, 8, 40])
@pytest.mark.parametrize("truth", [Fraction(3, 5), Fraction(99, 100), 1 - Fraction(1, 10**9)])
@pytest.mark.parametrize("step", [Fraction(33, 32), Fraction(3, 2), Fraction(2), Fraction(5)])
def test_a_wide_step_still_covers_every_order(truth, omega, step):
    """D_α of two swapped answers in closed form, at orders between those that the cover computes."""
    p, q = np.log(float(truth)), np.log(float(1 - truth))
    rho = float(tcdp(RandomizedResponseEvent(truth, 2), omega, step))
    orders = 1 + (float(omega) - 1) * np.geomspace(1e-4, 1, 400)
    moments = np.logaddexp(orders * p + (1 - orders) * q, orders * q + (1 - orders) * p)
    slopes = moments / ((orders - 1) * orders)
    assert slopes.max() <= rho * (1 + 1e-9)


@pytest.mark.parametrize("step", [Fraction(3, 2), Fraction(2), Fraction(5)])
@pytest.mark.parametrize(("sigma", "rate"), [(1, Fraction(1, 100)), (2, Fraction(1, 10)), (Fraction(1, 2), Fraction(1, 2))])
def test_a_wide_step_covers_samples(sigma, rate, step):
    """D_α of a sampled Gaussian by numerical integration, which is accurate to far more than the test needs."""
    y, h = np.linspace(-40, 120, 160_001, retstep=True)
    ratio = np.logaddexp(np.log1p(-float(rate)), np.log(float(rate)) + y / float(sigma) - 0.5 / float(sigma) ** 2)
    event = Subsampled(GaussianEvent(Fraction(sigma), to_sensitivity(1)), rate)
    rho = float(tcdp(event, 8, step))
    for order in np.geomspace(1.001, 8, 60):
        moment = h / np.sqrt(2 * np.pi) * np.exp(order * ratio - y * y / 2).sum()
        assert np.log(moment) / ((order - 1) * order) <= rho * (1 + 1e-9)


@pytest.mark.parametrize("shape", [{"l0": 1, "linf": 1}, {"l0": 3, "linf": 1}, {"l0": 3, "linf": 2, "l1": 4}])
@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(2), Fraction(50)])
def test_no_omega_makes_laplace_noise_cheaper_than_its_zcdp(shape, scale):
    event = LaplaceEvent(scale, Sensitivity(**shape))
    near_one = 1 + Fraction(1, 10**6)
    assert tcdp(event, 4) == zcdp(event)
    assert float(renyi(event, near_one) / near_one) == pytest.approx(float(zcdp(event)), rel=1e-5)


@pytest.mark.parametrize("omega", [1, 0, -1])
def test_omega_must_exceed_one(omega):
    with pytest.raises(BadParameter):
        tcdp(EVERY["gaussian"], omega)
