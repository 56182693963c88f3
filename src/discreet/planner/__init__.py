"""The planner: accuracy, ε and the number of people, two of which give the third; and which mechanism wins from where on.

Errors are exact quantiles of the noise that is drawn, with the textbooks' bounds beside them. Nothing here sees data.
"""

from discreet.planner.planning import plan
from discreet.planner.result import Plan, Row
from discreet.planner.search import Crossover
from discreet.planner.task import Count, Histogram, Mean, PlannerQuery, Proportion, Sum

__all__ = ["Count", "Crossover", "Histogram", "Mean", "Plan", "PlannerQuery", "Proportion", "Row", "Sum", "plan"]
