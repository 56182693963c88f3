"""Differential privacy that is exact in the machine.

>>> import discreet
>>> mechanism = discreet.Laplace.for_epsilon(1, sensitivity=1)
>>> noisy = mechanism.release([120, 45, 3])
>>> mechanism.error(confidence=0.95), discreet.pure(mechanism.loss(1))
(3.0, Fraction(1, 1))
"""

from typing import TYPE_CHECKING, Any

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
    EngineFailed,
    HypothesisFails,
    QuestionRefused,
    SourceRefused,
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

if TYPE_CHECKING:
    from discreet.session import connect

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """`connect` brings an engine and a parser along: they are loaded when it is first used."""
    if name == "connect":
        from discreet.session import connect

        return connect
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


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
    "EngineFailed",
    "Exponential",
    "Gaussian",
    "Geometric",
    "HypothesisFails",
    "Laplace",
    "Loss",
    "Neighbours",
    "OptimalThreshold",
    "QuestionRefused",
    "Race",
    "RandomizedResponse",
    "RunningTotal",
    "Sensitivity",
    "SourceRefused",
    "Threshold",
    "TruncatedGeometric",
    "__version__",
    "advantage",
    "approx",
    "calibrate",
    "compose",
    "connect",
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
