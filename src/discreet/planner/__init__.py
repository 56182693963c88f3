"""The planner: accuracy, ε and the number of people, two of which give the third; and which mechanism wins from where on.

Errors are exact quantiles of the noise that is drawn, with the textbooks' bounds beside them. Nothing here sees data.
"""

from discreet.planner.ask import plan
from discreet.planner.crossing import Crossover
from discreet.planner.questions import Count, Histogram, Mean, PlannerQuery, Proportion, Sum
from discreet.planner.result import Plan, Row

__all__ = ["Count", "Crossover", "Histogram", "Mean", "Plan", "PlannerQuery", "Proportion", "Row", "Sum", "plan"]
