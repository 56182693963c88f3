"""From where on another mechanism wins, and what deserves a warning."""

from dataclasses import dataclass, replace
from fractions import Fraction
from math import exp

from discreet.planner.central import CENTRAL
from discreet.planner.local import LOCAL
from discreet.planner.questions import full
from discreet.planner.solve import least_n, least_whole
from discreet.planner.task import Goal, Task

MOST_QUERIES = 1 << 20
WEAK = 10


@dataclass(frozen=True, slots=True)
class Crossover:
    """A number of questions, or of people, from which on a mechanism is the one to take, or begins to be of use."""

    mechanism: str
    what: str
    at: int
    said: str

    def __str__(self) -> str:
        return self.said


def gaussian_wins(task: Task, epsilon: Fraction) -> Crossover | None:
    """The least number of questions at once for which Gaussian noise has the smaller error than Laplace noise."""
    if task.delta == 0:
        return None
    laplace, gaussian, _ = CENTRAL

    def wins(queries: int) -> bool:
        many = replace(task, queries=queries)
        mine, other = (way.accuracy(many, epsilon, None).aimed(task.aim) for way in (gaussian, laplace))
        return mine < other

    at = least_whole(wins, MOST_QUERIES)
    if at is None:
        return None
    said = f"Gaussian noise beats Laplace noise from {at:,} such question{'s' * (at > 1)} at once on (here {task.queries:,})"
    return Crossover("Gaussian", "queries", at, f"{said}, at ε = {float(epsilon):.4g}, δ = {float(task.delta):g}.")


def response_usable(task: Task, goal: Goal, epsilon: Fraction) -> Crossover | None:
    """The number of people from which on randomised response meets the goal, nobody being trusted with the data."""
    at = least_n(LOCAL, task, goal, epsilon)
    if at is None:
        return None
    said = f"Randomised response, where nobody holds the data, is as good from about n = {at:,} on"
    return Crossover(LOCAL.name, "n", at, f"{said}, at ε = {float(epsilon):.4g}.")


def warnings(task: Task, epsilon: Fraction, delta: Fraction, n: int | None, half_width: Fraction) -> tuple[str, ...]:
    """What makes a plan pointless, in plain words with the reason."""
    said = []
    if n is not None and epsilon * n < 1:
        said.append(
            f"ε = {float(epsilon):.4g} is below 1/n = {1 / n:.4g}: replacing all n people, one after the other, changes no "
            "probability by more than a factor e, so nothing useful about them can be learned."
        )
    if n is not None and delta * n >= 1:
        said.append(
            f"δ = {float(delta):g} is not below 1/n = {1 / n:.4g}: to publish somebody's record in clear, chosen at random, "
            "would keep this promise. Take δ far below 1/n; 1/n² is usual."
        )
    if epsilon > WEAK:
        factor = exp(min(float(epsilon), 700.0))
        odds = f"{factor:,.0f}" if epsilon < 20 else f"{factor:.1e}"
        said.append(
            f"ε = {float(epsilon):.4g} is above {WEAK}: an answer may be {odds} times as likely with somebody's record as "
            "without it, which promises next to nothing."
        )
    if n is not None and half_width >= full(task.question, n):
        said.append("The noise is as large as the answer can be: this says nothing about the people.")
    return tuple(said)
