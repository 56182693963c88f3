"""Tabulations: tables over declared columns that add up, from jointly allocated noise, with an interval for every cell."""

from typing import TYPE_CHECKING

from discreet._exports import export_lazily

if TYPE_CHECKING:
    from discreet.tabulation.allocation import Allocation, allocate, allocate_for_errors
    from discreet.tabulation.hierarchical import HierarchyTabulation, tabulate_hierarchy
    from discreet.tabulation.hierarchy import Hierarchy, LevelTable
    from discreet.tabulation.hierarchy_plan import HierarchyPlan, plan_hierarchy, sigmas_from_shares
    from discreet.tabulation.intervals import ErrorModel
    from discreet.tabulation.margins import Contrast, Margin
    from discreet.tabulation.plan import TabulationPlan, plan_tabulation
    from discreet.tabulation.residuals import Residuals, combine
    from discreet.tabulation.tables import TabulatedTable
    from discreet.tabulation.tabulation import Tabulation, tabulate
    from discreet.tabulation.wanted import WantedTable

__getattr__, __dir__ = export_lazily(
    globals(),
    {
        "discreet.tabulation.allocation": "Allocation allocate allocate_for_errors",
        "discreet.tabulation.hierarchical": "HierarchyTabulation tabulate_hierarchy",
        "discreet.tabulation.hierarchy": "Hierarchy LevelTable",
        "discreet.tabulation.hierarchy_plan": "HierarchyPlan plan_hierarchy sigmas_from_shares",
        "discreet.tabulation.intervals": "ErrorModel",
        "discreet.tabulation.margins": "Contrast Margin",
        "discreet.tabulation.plan": "TabulationPlan plan_tabulation",
        "discreet.tabulation.residuals": "Residuals combine",
        "discreet.tabulation.tables": "TabulatedTable",
        "discreet.tabulation.tabulation": "Tabulation tabulate",
        "discreet.tabulation.wanted": "WantedTable",
    },
)

__all__ = [
    "Allocation",
    "Contrast",
    "ErrorModel",
    "Hierarchy",
    "HierarchyPlan",
    "HierarchyTabulation",
    "LevelTable",
    "Margin",
    "Residuals",
    "TabulatedTable",
    "Tabulation",
    "TabulationPlan",
    "WantedTable",
    "allocate",
    "allocate_for_errors",
    "combine",
    "plan_hierarchy",
    "plan_tabulation",
    "sigmas_from_shares",
    "tabulate",
    "tabulate_hierarchy",
]
