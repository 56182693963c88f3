"""Differential privacy that is exact in the machine.

>>> import discreet
>>> mechanism = discreet.Laplace.for_epsilon(1, sensitivity=1)
>>> noisy = mechanism.release([120, 45, 3])
>>> mechanism.error(confidence=0.95), discreet.pure(mechanism.loss(1))
(3.0, Fraction(1, 1))
"""

from discreet.accounting import delta, epsilon, gaussian_delta, gaussian_epsilon, pure, zcdp
from discreet.errors import BadParameter, BadValues, DiscreetError, HypothesisFails
from discreet.exact import Bounds
from discreet.mechanisms import (
    Binomial,
    DiscreteGaussian,
    Exponential,
    Gaussian,
    Geometric,
    Laplace,
    OptimalThreshold,
    RandomizedResponse,
    Threshold,
    TruncatedGeometric,
    calibrate,
)
from discreet.noise import Race
from discreet.units import Neighbours, Sensitivity

__version__ = "0.1.0"

__all__ = [
    "BadParameter",
    "BadValues",
    "Binomial",
    "Bounds",
    "DiscreetError",
    "DiscreteGaussian",
    "Exponential",
    "Gaussian",
    "Geometric",
    "HypothesisFails",
    "Laplace",
    "Neighbours",
    "OptimalThreshold",
    "Race",
    "RandomizedResponse",
    "Sensitivity",
    "Threshold",
    "TruncatedGeometric",
    "__version__",
    "calibrate",
    "delta",
    "epsilon",
    "gaussian_delta",
    "gaussian_epsilon",
    "pure",
    "zcdp",
]
