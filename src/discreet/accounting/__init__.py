"""Readings: what a fact means in each notion of privacy. Every reading is total, and answers ∞ where it has none."""

from discreet.accounting.approx import approx
from discreet.accounting.curve import delta, epsilon
from discreet.accounting.gaussian import gaussian_delta, gaussian_epsilon
from discreet.accounting.gdp import gdp
from discreet.accounting.pure import pure
from discreet.accounting.renyi import renyi
from discreet.accounting.risk import advantage, hits, trade_off
from discreet.accounting.running import RunningTotal
from discreet.accounting.side_by_side import readings
from discreet.accounting.tcdp import tcdp
from discreet.accounting.zcdp import zcdp

__all__ = [
    "RunningTotal",
    "advantage",
    "approx",
    "delta",
    "epsilon",
    "gaussian_delta",
    "gaussian_epsilon",
    "gdp",
    "hits",
    "pure",
    "readings",
    "renyi",
    "tcdp",
    "trade_off",
    "zcdp",
]
