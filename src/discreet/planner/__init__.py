"""The planner: from two of accuracy, ε and the number of people to the third, and to the best mechanism.

Errors are exact quantiles of the noise that is drawn, with the textbooks' bounds beside them. No data is read. A `task` says
what is planned, `mechanisms` predict its error, `search` solves for ε or n, `planning` compares, and `result` shows it.
"""

from discreet.planner.planning import plan
from discreet.planner.result import Plan, Row
from discreet.planner.search import Crossover
from discreet.planner.task import Count, Histogram, Mean, PlannerQuery, Proportion, Sum

__all__ = ["Count", "Crossover", "Histogram", "Mean", "Plan", "PlannerQuery", "Proportion", "Row", "Sum", "plan"]
