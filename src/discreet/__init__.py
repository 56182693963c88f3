"""Differential privacy that is exact in the machine.

>>> import discreet
>>> mechanism = discreet.Laplace.for_epsilon(1, sensitivity=1)
>>> noisy = mechanism.release([120, 45, 3])
>>> mechanism.error(confidence=0.95), discreet.pure(mechanism.loss(1))
(3.0, Fraction(1, 1))
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    from discreet.auditor import Finding, audit
    from discreet.errors import (
        BadExpression,
        BadFact,
        BadParameter,
        BadValues,
        BudgetExceeded,
        DiscreetError,
        EngineFailed,
        HypothesisFails,
        LedgerBroken,
        LedgerFailed,
        QuestionRefused,
        SourceQuarantined,
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
        SparseVector,
        Threshold,
        TruncatedGeometric,
        calibrate,
    )
    from discreet.noise import Race
    from discreet.opening import connect
    from discreet.planner import Count, Histogram, Mean, Plan, Proportion, Sum, plan
    from discreet.publisher import Asked, Workload, publish, read_plan
    from discreet.query.expression import col, when
    from discreet.query.frame import count, count_units, select
    from discreet.testing import assert_private
    from discreet.units import Neighbours, Sensitivity

__version__ = "0.1.0"

_HOMES = {
    "discreet.accounting": (
        "RunningTotal advantage approx delta epsilon gaussian_delta gaussian_epsilon gdp hits pure "
        "readings renyi tcdp trade_off zcdp"
    ),
    "discreet.auditor": "Finding audit",
    "discreet.errors": (
        "BadExpression BadFact BadParameter BadValues BudgetExceeded DiscreetError EngineFailed "
        "HypothesisFails LedgerBroken LedgerFailed QuestionRefused SourceQuarantined SourceRefused"
    ),
    "discreet.exact": "Bounds",
    "discreet.loss": "Loss compose group parallel repeat subsample",
    "discreet.mechanisms": (
        "Binomial DiscreteGaussian Exponential Gaussian Geometric Laplace OptimalThreshold "
        "RandomizedResponse SparseVector Threshold TruncatedGeometric calibrate"
    ),
    "discreet.noise": "Race",
    "discreet.planner": "Count Histogram Mean Plan Proportion Sum plan",
    "discreet.publisher": "Asked Workload publish read_plan",
    "discreet.query.expression": "col when",
    "discreet.query.frame": "count count_units select",
    "discreet.units": "Neighbours Sensitivity",
    "discreet.opening": "connect",
    "discreet.testing": "assert_private",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}
_PARTS = {
    "accounting", "auditor", "codec", "errors", "exact", "lab", "ledger", "loss", "mechanisms", "noise", "planner",
    "publisher", "session", "testing", "units",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Public names are fetched from their homes when they are first used, so that `import discreet` costs nothing."""
    if name in _PARTS:
        return import_module(f"{__name__}.{name}")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = getattr(import_module(_HOME[name]), name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME, *_PARTS})


__all__ = [
    "Asked",
    "BadExpression",
    "BadFact",
    "BadParameter",
    "BadValues",
    "Binomial",
    "Bounds",
    "BudgetExceeded",
    "Count",
    "DiscreetError",
    "DiscreteGaussian",
    "EngineFailed",
    "Exponential",
    "Finding",
    "Gaussian",
    "Geometric",
    "Histogram",
    "HypothesisFails",
    "Laplace",
    "LedgerBroken",
    "LedgerFailed",
    "Loss",
    "Mean",
    "Neighbours",
    "OptimalThreshold",
    "Plan",
    "Proportion",
    "QuestionRefused",
    "Race",
    "RandomizedResponse",
    "RunningTotal",
    "Sensitivity",
    "SourceQuarantined",
    "SourceRefused",
    "SparseVector",
    "Sum",
    "Threshold",
    "TruncatedGeometric",
    "Workload",
    "__version__",
    "advantage",
    "approx",
    "assert_private",
    "audit",
    "calibrate",
    "col",
    "compose",
    "connect",
    "count",
    "count_units",
    "delta",
    "epsilon",
    "gaussian_delta",
    "gaussian_epsilon",
    "gdp",
    "group",
    "hits",
    "parallel",
    "plan",
    "publish",
    "pure",
    "read_plan",
    "readings",
    "renyi",
    "repeat",
    "select",
    "subsample",
    "tcdp",
    "trade_off",
    "when",
    "zcdp",
]
