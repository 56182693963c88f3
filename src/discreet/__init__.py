"""Differential privacy that is exact in the machine.

>>> import discreet
>>> mechanism = discreet.Laplace.for_epsilon(1, sensitivity=1)
>>> noisy = mechanism.release([120, 45, 3])
>>> mechanism.error(confidence=0.95), discreet.pure(mechanism.event(1))
(3.0, Fraction(1, 1))
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from discreet._exports import export_lazily

if TYPE_CHECKING:
    from discreet._numbers import Bounds
    from discreet.accounting import (
        RunningTotal,
        advantage,
        basic_composition,
        compare_guarantees,
        delta,
        dpsgd,
        epsilon,
        gaussian_delta,
        gaussian_epsilon,
        gdp,
        lifetime_epsilon,
        posterior_range,
        pure,
        renyi,
        shuffled_epsilon,
        tcdp,
        trade_off,
        true_positive_rate,
        zcdp,
    )
    from discreet.auditor import Finding, audit
    from discreet.errors import (
        AskPending,
        BadEventEncoding,
        BadExpression,
        BadParameter,
        BadValues,
        BudgetExceeded,
        DiscreetError,
        EngineFailed,
        LedgerCorrupted,
        LedgerUnavailable,
        NotFound,
        NotSignedIn,
        QueryRefused,
        ServiceChanged,
        ServiceUnavailable,
        SourceQuarantined,
        SourceRefused,
        TheoremNotApplicable,
    )
    from discreet.events import Event, compose, group, parallel, repeat, shuffle, subsample
    from discreet.mechanisms import (
        Binomial,
        DiscreteGaussian,
        Exponential,
        Gaussian,
        Geometric,
        Laplace,
        OptimalPartitionSelection,
        RandomizedResponse,
        SparseVector,
        Threshold,
        TruncatedGeometric,
        calibrate,
    )
    from discreet.noise import SelectionRule
    from discreet.planner import Count, Histogram, Mean, Plan, Proportion, Sum, Training, TrainingPlan, plan
    from discreet.query.builder import col, count, count_units, select, when
    from discreet.session.connect import connect
    from discreet.session.preparing import prepare
    from discreet.streams import load_stream, open_stream, read_stream
    from discreet.synthesis import SyntheticTable, synthesize, synthesize_publication
    from discreet.tabulation import Tabulation, WantedTable, tabulate
    from discreet.testing import assert_private
    from discreet.units import Neighbours, Sensitivity
    from discreet.workload import Workload, WorkloadQuery, publish, read_workload

__version__ = "0.2.0"

# Public names are fetched from their homes when they are first used, so that `import discreet` costs nothing.
__getattr__, __dir__ = export_lazily(
    globals(),
    {
        "discreet._numbers": "Bounds",
        "discreet.accounting": (
            "RunningTotal advantage basic_composition compare_guarantees delta dpsgd epsilon gaussian_delta "
            "gaussian_epsilon gdp lifetime_epsilon posterior_range pure renyi shuffled_epsilon tcdp trade_off "
            "true_positive_rate zcdp"
        ),
        "discreet.auditor": "Finding audit",
        "discreet.errors": (
            "AskPending BadEventEncoding BadExpression BadParameter BadValues BudgetExceeded DiscreetError EngineFailed "
            "LedgerCorrupted LedgerUnavailable NotFound NotSignedIn QueryRefused ServiceChanged ServiceUnavailable "
            "SourceQuarantined SourceRefused TheoremNotApplicable"
        ),
        "discreet.events": "Event compose group parallel repeat shuffle subsample",
        "discreet.mechanisms": (
            "Binomial DiscreteGaussian Exponential Gaussian Geometric Laplace OptimalPartitionSelection "
            "RandomizedResponse SparseVector Threshold TruncatedGeometric calibrate"
        ),
        "discreet.noise": "SelectionRule",
        "discreet.planner": "Count Histogram Mean Plan Proportion Sum Training TrainingPlan plan",
        "discreet.query.builder": "col count count_units select when",
        "discreet.session.connect": "connect",
        "discreet.session.preparing": "prepare",
        "discreet.streams": "load_stream open_stream read_stream",
        "discreet.synthesis": "SyntheticTable synthesize synthesize_publication",
        "discreet.tabulation": "Tabulation WantedTable tabulate",
        "discreet.testing": "assert_private",
        "discreet.units": "Neighbours Sensitivity",
        "discreet.workload": "Workload WorkloadQuery publish read_workload",
    },
    parts={
        "accounting",
        "auditor",
        "codec",
        "errors",
        "events",
        "lab",
        "ledger",
        "local",
        "mechanisms",
        "noise",
        "planner",
        "remote",
        "session",
        "streams",
        "synthesis",
        "tabulation",
        "testing",
        "units",
        "workload",
    },
)


def load_ipython_extension(shell: Any) -> None:
    """Load the magics of notebooks: `%load_ext discreet`, then `%discreet SOURCE` and `%%ask`."""
    import_module(f"{__name__}.magic").load(shell)


__all__ = [
    "AskPending",
    "BadEventEncoding",
    "BadExpression",
    "BadParameter",
    "BadValues",
    "Binomial",
    "Bounds",
    "BudgetExceeded",
    "Count",
    "DiscreetError",
    "DiscreteGaussian",
    "EngineFailed",
    "Event",
    "Exponential",
    "Finding",
    "Gaussian",
    "Geometric",
    "Histogram",
    "Laplace",
    "LedgerCorrupted",
    "LedgerUnavailable",
    "Mean",
    "Neighbours",
    "NotFound",
    "NotSignedIn",
    "OptimalPartitionSelection",
    "Plan",
    "Proportion",
    "QueryRefused",
    "RandomizedResponse",
    "RunningTotal",
    "SelectionRule",
    "Sensitivity",
    "ServiceChanged",
    "ServiceUnavailable",
    "SourceQuarantined",
    "SourceRefused",
    "SparseVector",
    "Sum",
    "SyntheticTable",
    "Tabulation",
    "TheoremNotApplicable",
    "Threshold",
    "Training",
    "TrainingPlan",
    "TruncatedGeometric",
    "WantedTable",
    "Workload",
    "WorkloadQuery",
    "__version__",
    "advantage",
    "assert_private",
    "audit",
    "basic_composition",
    "calibrate",
    "col",
    "compare_guarantees",
    "compose",
    "connect",
    "count",
    "count_units",
    "delta",
    "dpsgd",
    "epsilon",
    "gaussian_delta",
    "gaussian_epsilon",
    "gdp",
    "group",
    "lifetime_epsilon",
    "load_stream",
    "open_stream",
    "parallel",
    "plan",
    "posterior_range",
    "prepare",
    "publish",
    "pure",
    "read_stream",
    "read_workload",
    "renyi",
    "repeat",
    "select",
    "shuffle",
    "shuffled_epsilon",
    "subsample",
    "synthesize",
    "synthesize_publication",
    "tabulate",
    "tcdp",
    "trade_off",
    "true_positive_rate",
    "when",
    "zcdp",
]
