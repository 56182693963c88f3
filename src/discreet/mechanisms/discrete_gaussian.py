"""The discrete Gaussian of Canonne, Kamath and Steinke: P(k) ∝ e^{-k²/2σ²} on the integers.

It is ρ-zCDP with ρ = l2²/2σ², as the continuous one, but *not* l2/σ-GDP: at σ = 1 its total variation for a shift by one is
0.3989, the Gaussian's 0.3829. `Gaussian` has the better curve; this one is for comparison with the literature.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import erfc, sqrt
from typing import Any

from discreet._numbers import Number, check_positive, nearest_float, read_positive, read_probability, sqrt_up
from discreet.accounting.elementary import log_bounds
from discreet.events import DiscreteGaussianEvent
from discreet.mechanisms._additive_noise import (
    L2,
    Values,
    add_noise,
    default_grid,
    fit_scale_to_grid,
    max_error,
    max_error_by_table,
)
from discreet.noise import Bits, discrete_gaussian
from discreet.noise.lattice_gaussian import weights
from discreet.units import Sensitivity, check_grid, to_sensitivity

MAX_SUMMED_SIGMA = 1000
"""Up to this σ the tail is summed; beyond it the tail of the continuous Gaussian bounds it, less than a step away."""


@dataclass(frozen=True, slots=True, init=False)
class DiscreteGaussian:
    """Adds discrete Gaussian noise to integers; to reals the same on a power-of-two grid.

    >>> DiscreteGaussian.for_rho(Fraction(1, 200), sensitivity=1)
    DiscreteGaussian(sigma=10)
    """

    sigma: Fraction

    def __init__(self, sigma: Number) -> None:
        object.__setattr__(self, "sigma", check_positive(sigma, "sigma"))

    def __repr__(self) -> str:
        return f"DiscreteGaussian(sigma={nearest_float(self.sigma):.12g})"

    @classmethod
    def for_rho(cls, rho: Number, sensitivity: Sensitivity | Number, *, reals: bool = False) -> "DiscreteGaussian":
        """Return the mechanism with the least noise that is ρ-zCDP: σ² = l2²/2ρ [CKS20, Thm 4]."""
        exact, ratio = to_sensitivity(sensitivity), sqrt_up(1 / (2 * read_positive(rho, "rho")))
        return cls(fit_scale_to_grid(exact, L2, ratio) if reals else exact.l2 * ratio)

    @classmethod
    def for_epsilon(
        cls, epsilon: Number, delta: Number, sensitivity: Sensitivity | Number, *, reals: bool = False
    ) -> "DiscreteGaussian":
        """Return a mechanism that is (ε, δ)-private by way of zCDP, ε = ρ + 2√(ρ ln 1/δ) [BS16, Prop. 1.3]."""
        eps, log_term = read_positive(epsilon, "epsilon"), log_bounds(1 / read_probability(delta, "delta"))[1]
        # √ρ = √(L + ε) − √L = ε/(√(L + ε) + √L), with L = ln 1/δ rounded up and both roots rounded up: ρ is rounded down.
        return cls.for_rho((eps / (sqrt_up(log_term + eps) + sqrt_up(log_term))) ** 2, sensitivity, reals=reals)

    @property
    def grid(self) -> Fraction:
        """The grid to which reals are rounded unless another is given."""
        return default_grid(self.sigma)

    def release(self, values: Values, bits: Bits | None = None, *, grid: Number | None = None) -> Any:
        """Return `values` plus noise, in the same form: integers stay integers, floats are multiples of the grid."""
        return add_noise(values, discrete_gaussian, self.sigma, bits, grid)

    def event(self, sensitivity: Sensitivity | Number, grid: Number = 1) -> DiscreteGaussianEvent:
        """Return the event of a release at this sensitivity. Reals need the grid: rounding to it adds to the sensitivity."""
        step = check_grid(grid)
        return DiscreteGaussianEvent(self.sigma / step, to_sensitivity(sensitivity).to_grid(step))

    def error(self, confidence: Number, size: int = 1, *, grid: Number = 1) -> float:
        """Return the error that the largest of `size` draws does not exceed with the given confidence."""
        step = check_grid(grid)
        sigma = self.sigma / step
        if sigma <= MAX_SUMMED_SIGMA:
            return max_error_by_table(partial(weights, sigma**2), confidence, size, step)
        # Σ_{k>t} e^{-k²/2σ²} ≤ ∫_t^∞, and Σ_k e^{-k²/2σ²} ≥ σ√2π by Poisson summation: P(|X| > t) ≤ P(|Z| > t).
        width = nearest_float(sigma) * sqrt(2)
        return max_error(lambda t: erfc(t / width), confidence, size, step)
