"""Laplace noise: its scale, and its guarantee in zCDP, as the textbooks state them."""

from fractions import Fraction
from math import exp

import numpy as np
import pytest

from discreet import (
    DiscreteGaussian,
    Laplace,
    Sensitivity,
    pure,
    zcdp,
)
from discreet.accounting.zcdp import laplace_rho, pure_rho
from discreet.events import LaplaceEvent
from discreet.units import to_sensitivity


def test_laplace_scale_is_l1_over_epsilon_per_coordinate() -> None:
    assert Laplace.for_epsilon(Fraction(1, 2), Sensitivity(l0=3, linf=1)).scale == 6
    assert pure(Laplace(6).event(Sensitivity(l0=3, linf=1))) == Fraction(1, 2)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(4)])
def test_laplace_and_pure_as_zcdp(epsilon: Fraction) -> None:
    e = float(epsilon)
    assert float(laplace_rho(epsilon)) == pytest.approx(e + exp(-e) - 1, rel=1e-14)
    assert float(pure_rho(epsilon)) == pytest.approx(e * np.tanh(e / 2), rel=1e-14)
    assert zcdp(LaplaceEvent(1 / epsilon, to_sensitivity(1))) == laplace_rho(epsilon)
    assert zcdp(Laplace(1 / epsilon).event(1)) == pure_rho(epsilon)


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(2), Fraction(9)])
@pytest.mark.parametrize("shift", [1, 2, 5])
def test_zcdp_holds_at_every_order_for_the_distributions_themselves(scale: Fraction, shift: int) -> None:
    """D_α ≤ ρα by summing the probabilities: discrete Laplace and discrete Gaussian, α from 1.01 to 200."""
    reach = np.arange(-800, 801)
    for m, logp in (
        (Laplace(scale), -np.abs(reach) / float(scale)),
        (DiscreteGaussian(scale), -(reach.astype(float) ** 2) / (2 * float(scale) ** 2)),
    ):
        base = logp - np.logaddexp.reduce(logp)
        p, q = base[shift:], base[:-shift]
        rho = float(zcdp(m.event(shift)))
        for alpha in (1.01, 1.5, 2, 5, 20, 200):
            divergence = np.logaddexp.reduce(alpha * p + (1 - alpha) * q) / (alpha - 1)
            assert divergence <= rho * alpha * (1 + 1e-9)
