"""tCDP against Rényi divergences at the orders below ω."""

from fractions import Fraction
from math import inf

import pytest

from discreet.accounting.renyi import renyi
from discreet.accounting.tcdp import tcdp
from discreet.accounting.zcdp import zcdp
from discreet.errors import BadParameter
from discreet.events import (
    GaussianEvent,
    Subsampled,
)
from discreet.units import to_sensitivity
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


@pytest.mark.parametrize("omega", [1, 0, -1])
def test_omega_must_exceed_one(omega):
    with pytest.raises(BadParameter):
        tcdp(EVERY["gaussian"], omega)
