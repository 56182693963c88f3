"""Differential privacy that is exact in the machine.

>>> import discreet
>>> mechanism = discreet.Laplace.for_epsilon(1, sensitivity=1)
>>> noisy = mechanism.release([120, 45, 3])
>>> mechanism.error(confidence=0.95), discreet.pure(mechanism.loss(1))
(3.0, Fraction(1, 1))
"""

from discreet.accounting import (
    RunningTotal,
    advantage,
    approx,
    delta,
    epsilon,
    gaussian_delta,
    gaussian_epsilon,
    gdp,
    hits,
    pure,
    readings,
    renyi,
    tcdp,
    trade_off,
    zcdp,
)
from discreet.errors import (
    BadExpression,
    BadFact,
    BadParameter,
    BadValues,
    BudgetExceeded,
    DiscreetError,
    HypothesisFails,
)
from discreet.exact import Bounds
from discreet.loss import Loss, compose, group, parallel, repeat, subsample
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
    "BadExpression",
    "BadFact",
    "BadParameter",
    "BadValues",
    "Binomial",
    "Bounds",
    "BudgetExceeded",
    "DiscreetError",
    "DiscreteGaussian",
    "Exponential",
    "Gaussian",
    "Geometric",
    "HypothesisFails",
    "Laplace",
    "Loss",
    "Neighbours",
    "OptimalThreshold",
    "Race",
    "RandomizedResponse",
    "RunningTotal",
    "Sensitivity",
    "Threshold",
    "TruncatedGeometric",
    "__version__",
    "advantage",
    "approx",
    "calibrate",
    "compose",
    "delta",
    "epsilon",
    "gaussian_delta",
    "gaussian_epsilon",
    "gdp",
    "group",
    "hits",
    "parallel",
    "pure",
    "readings",
    "renyi",
    "repeat",
    "subsample",
    "tcdp",
    "trade_off",
    "zcdp",
]
