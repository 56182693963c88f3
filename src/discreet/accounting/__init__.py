"""Guarantees: what an event means in each notion of privacy. Each is total, and answers ∞ where it has no bound."""

from discreet.accounting.basic import basic_composition
from discreet.accounting.compare import compare_guarantees
from discreet.accounting.curve import delta, epsilon
from discreet.accounting.gdp import gdp
from discreet.accounting.pld.gaussian import gaussian_delta, gaussian_epsilon
from discreet.accounting.pure import pure
from discreet.accounting.renyi import renyi
from discreet.accounting.risk import advantage, posterior_range, trade_off, true_positive_rate
from discreet.accounting.running import RunningTotal
from discreet.accounting.tcdp import tcdp
from discreet.accounting.zcdp import zcdp

__all__ = [
    "RunningTotal",
    "advantage",
    "basic_composition",
    "compare_guarantees",
    "delta",
    "epsilon",
    "gaussian_delta",
    "gaussian_epsilon",
    "gdp",
    "posterior_range",
    "pure",
    "renyi",
    "tcdp",
    "trade_off",
    "true_positive_rate",
    "zcdp",
]
