"""A whole publication at once: several questions whose noise is fixed together, paid as one plan, written as one folder.

`workload` says what is wanted, `read` reads it from TOML, `solve` finds the prices, `outlook` says what they buy at three
budgets, `pay` pays once and looks at each question, `publication`, `card` and `pictures` write what a reader gets.
"""

from discreet.publisher.publication import Publication, publish
from discreet.publisher.read import read_workload
from discreet.publisher.solve import WorkloadPlan, plan_workload
from discreet.publisher.workload import Workload, WorkloadQuery

__all__ = ["Publication", "Workload", "WorkloadPlan", "WorkloadQuery", "plan_workload", "publish", "read_workload"]
