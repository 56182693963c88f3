"""The planner: from two of accuracy, ε and the number of people to the third, and to the best mechanism.

Errors are exact quantiles of the noise that is drawn, with the textbooks' bounds beside them. No data is read. A `task` says
what is planned, `mechanisms` predict its error, `search` solves for ε or n, `planning` compares, and `result` shows it.
`training` plans runs of DP-SGD: of the noise multiplier, ε and the number of steps, two give the third.
"""

from discreet.planner.planning import plan
from discreet.planner.result import Plan, Row
from discreet.planner.search import Crossover
from discreet.planner.task import Count, Histogram, Mean, PlannerQuery, Proportion, Sum
from discreet.planner.training import Training, TrainingPlan

__all__ = [
    "Count",
    "Crossover",
    "Histogram",
    "Mean",
    "Plan",
    "PlannerQuery",
    "Proportion",
    "Row",
    "Sum",
    "Training",
    "TrainingPlan",
    "plan",
]
