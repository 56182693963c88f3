"""A whole publication at once: several questions whose noise is fixed together, paid as one plan, written as one folder.

`spec` says what is wanted and reads it from TOML, `planning` finds the noise and its cost, `forecast` says what three
budgets would buy, `execution` debits once and runs each query, `publishing`, `guarantee` and `charts` write what a reader
gets.
"""

from discreet.workload.planning import WorkloadPlan, plan_workload
from discreet.workload.publishing import Publication, publish
from discreet.workload.spec import Workload, WorkloadQuery, read_workload

__all__ = ["Publication", "Workload", "WorkloadPlan", "WorkloadQuery", "plan_workload", "publish", "read_workload"]
