"""Guarantees: what an event means in each notion of privacy. Each is total, and answers ∞ where it has no bound."""

from typing import TYPE_CHECKING

from discreet._exports import export_lazily
from discreet.accounting.basic import basic_composition
from discreet.accounting.gdp import gdp
from discreet.accounting.pure import pure
from discreet.accounting.renyi import renyi
from discreet.accounting.tcdp import tcdp
from discreet.accounting.zcdp import zcdp

if TYPE_CHECKING:
    from discreet.accounting.compare import compare_guarantees
    from discreet.accounting.curve import delta, epsilon
    from discreet.accounting.lifetime import lifetime_epsilon
    from discreet.accounting.pld.gaussian import gaussian_delta, gaussian_epsilon
    from discreet.accounting.risk import advantage, posterior_range, trade_off, true_positive_rate
    from discreet.accounting.running import RunningTotal
    from discreet.accounting.shuffling import shuffled_epsilon
    from discreet.accounting.training import dpsgd

# What needs the certified curve is fetched when it is first used: a query in a pure budget does without.
__getattr__, __dir__ = export_lazily(
    globals(),
    {
        "discreet.accounting.compare": "compare_guarantees",
        "discreet.accounting.curve": "delta epsilon",
        "discreet.accounting.lifetime": "lifetime_epsilon",
        "discreet.accounting.pld.gaussian": "gaussian_delta gaussian_epsilon",
        "discreet.accounting.risk": "advantage posterior_range trade_off true_positive_rate",
        "discreet.accounting.running": "RunningTotal",
        "discreet.accounting.shuffling": "shuffled_epsilon",
        "discreet.accounting.training": "dpsgd",
    },
)

__all__ = [
    "RunningTotal",
    "advantage",
    "basic_composition",
    "compare_guarantees",
    "delta",
    "dpsgd",
    "epsilon",
    "gaussian_delta",
    "gaussian_epsilon",
    "gdp",
    "lifetime_epsilon",
    "posterior_range",
    "pure",
    "renyi",
    "shuffled_epsilon",
    "tcdp",
    "trade_off",
    "true_positive_rate",
    "zcdp",
]
