"""Root mean squares of the noise that is really drawn, in grid steps, rounded against ourselves.

The discrete Laplace law is narrower than the continuous one of its scale, the rounded Gaussian wider than its σ, the
discrete Gaussian narrower.
"""

from fractions import Fraction
from math import erfc, exp, fsum, sinh, sqrt

from discreet.mechanisms import DiscreteGaussian, Gaussian, Laplace
from discreet.mechanisms.quantile import SAFETY_FACTOR

MAX_SUMMED_SIGMA = 8.0
"""Below this σ the squares are summed; above it what sets the lattice apart is of order e^{-2π²σ²}."""


def root_mean_square(noise: Laplace | Gaussian | DiscreteGaussian, grid: Fraction) -> float:
    """√E X², X in steps of the grid.

    >>> root_mean_square(Laplace(1), Fraction(1)) < 2**0.5 * 1, root_mean_square(Gaussian(10), Fraction(1)) > 10
    (True, True)
    """
    match noise:
        case Laplace(scale=scale):
            half = float(grid / scale) / 2  # E X² = 2a/(1 − a)², a = e^{-2·half}
            return SAFETY_FACTOR / (sqrt(2) * sinh(half)) if half < 300 else 0.0
        case Gaussian(sigma=sigma):
            return SAFETY_FACTOR * sqrt(_rounded_gaussian_variance(float(sigma / grid)))
        case DiscreteGaussian(sigma=sigma):
            return SAFETY_FACTOR * sqrt(_discrete_gaussian_variance(float(sigma / grid)))


def _rounded_gaussian_variance(sigma: float) -> float:
    """E round(Z)² = Σ (2k + 1)·P(|Z| ≥ k + ½); for wide noise σ² + 1/12."""
    if sigma >= MAX_SUMMED_SIGMA:
        return sigma**2 + 1 / 12
    return fsum((2 * k + 1) * erfc((k + 0.5) / (sigma * sqrt(2))) for k in range(400))


def _discrete_gaussian_variance(sigma: float) -> float:
    """Never above σ² [CKS20, Cor. 9], and as good as σ² for wide noise."""
    if sigma >= MAX_SUMMED_SIGMA:
        return sigma**2
    weights = [exp(-((k / sigma) ** 2) / 2) for k in range(1, 400)]
    return fsum(2 * k * k * w for k, w in enumerate(weights, 1)) / (1 + 2 * fsum(weights))
