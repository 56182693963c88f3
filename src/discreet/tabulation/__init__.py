"""Tabulations: tables over declared columns that add up, from jointly allocated noise, with an interval for every cell."""

from typing import TYPE_CHECKING

from discreet._exports import export_lazily

if TYPE_CHECKING:
    from discreet.tabulation.allocation import Allocation, allocate, allocate_for_errors
    from discreet.tabulation.intervals import ErrorModel
    from discreet.tabulation.margins import Margin
    from discreet.tabulation.plan import TabulationPlan, plan_tabulation
    from discreet.tabulation.residuals import Residuals, combine
    from discreet.tabulation.tables import TabulatedTable
    from discreet.tabulation.tabulation import Tabulation, tabulate
    from discreet.tabulation.wanted import WantedTable

__getattr__, __dir__ = export_lazily(
    globals(),
    {
        "discreet.tabulation.allocation": "Allocation allocate allocate_for_errors",
        "discreet.tabulation.intervals": "ErrorModel",
        "discreet.tabulation.margins": "Margin",
        "discreet.tabulation.plan": "TabulationPlan plan_tabulation",
        "discreet.tabulation.residuals": "Residuals combine",
        "discreet.tabulation.tables": "TabulatedTable",
        "discreet.tabulation.tabulation": "Tabulation tabulate",
        "discreet.tabulation.wanted": "WantedTable",
    },
)

__all__ = [
    "Allocation",
    "ErrorModel",
    "Margin",
    "Residuals",
    "TabulatedTable",
    "Tabulation",
    "TabulationPlan",
    "WantedTable",
    "allocate",
    "allocate_for_errors",
    "combine",
    "plan_tabulation",
    "tabulate",
]
