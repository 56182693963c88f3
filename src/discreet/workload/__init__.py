"""A whole publication at once: several questions whose noise is fixed together, paid as one plan, written as one folder.

`workload` says what is wanted, `read` reads it from TOML, `solve` finds the prices, `outlook` says what they buy at three
budgets, `pay` pays once and looks at each question, `publication`, `card` and `pictures` write what a reader gets.
"""

from discreet.workload.planning import WorkloadPlan, plan_workload
from discreet.workload.publishing import Publication, publish
from discreet.workload.spec import Workload, WorkloadQuery, read_workload

__all__ = ["Publication", "Workload", "WorkloadPlan", "WorkloadQuery", "plan_workload", "publish", "read_workload"]
