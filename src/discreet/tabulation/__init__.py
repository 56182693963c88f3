"""Tabulations: tables over declared columns that add up, from jointly allocated noise, with an interval for every cell."""

from typing import TYPE_CHECKING

from discreet._exports import export_lazily

if TYPE_CHECKING:
    from discreet.tabulation.allocation import Allocation, allocate, allocate_for_errors
    from discreet.tabulation.intervals import ErrorModel
    from discreet.tabulation.margins import Margin
    from discreet.tabulation.residuals import Residuals, combine

__getattr__, __dir__ = export_lazily(
    globals(),
    {
        "discreet.tabulation.allocation": "Allocation allocate allocate_for_errors",
        "discreet.tabulation.intervals": "ErrorModel",
        "discreet.tabulation.margins": "Margin",
        "discreet.tabulation.residuals": "Residuals combine",
    },
)

__all__ = ["Allocation", "ErrorModel", "Margin", "Residuals", "allocate", "allocate_for_errors", "combine"]
