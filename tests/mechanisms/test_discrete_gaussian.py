"""The discrete Gaussian is ρ-zCDP, but not GDP."""

from fractions import Fraction

import numpy as np
import pytest

from discreet import (
    DiscreteGaussian,
    gaussian_delta,
    zcdp,
)


def test_discrete_gaussian_is_rho_zcdp_but_not_gdp() -> None:
    assert zcdp(DiscreteGaussian.for_rho(Fraction(1, 50), 3).event(3)) <= Fraction(1, 50)
    weights = np.exp(-(np.arange(-60, 61) ** 2) / 2.0)
    weights /= weights.sum()
    variation = np.maximum(weights[1:] - weights[:-1], 0).sum() + max(weights[0], 0)
    assert variation == pytest.approx(0.3989, abs=5e-5)
    assert float(gaussian_delta(1, 0)) == pytest.approx(0.3829, abs=5e-5)
