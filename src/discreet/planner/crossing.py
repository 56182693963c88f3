"""From where on another mechanism wins, and what deserves a warning."""

from dataclasses import dataclass, replace
from fractions import Fraction
from math import exp

from discreet.planner.central import CENTRAL_MECHANISMS
from discreet.planner.local import LOCAL_MECHANISM
from discreet.planner.questions import reference_size
from discreet.planner.solve import smallest_int_where, solve_n
from discreet.planner.task import Goal, Task

MAX_QUERIES = 1 << 20
MIN_TRIED, MAX_TRIED = 64, 1024
"""Numbers of questions are tried up to four times the first that is won, at least up to MIN_TRIED and at most up to
MAX_TRIED: on a lattice some later ones are ties, or lost."""
WEAK_EPSILON = 10


@dataclass(frozen=True, slots=True)
class Crossover:
    """A number of questions, or of people, from which on a mechanism is the one to take, or begins to be of use."""

    mechanism: str
    quantity: str
    at: int
    message: str

    def __str__(self) -> str:
        return self.message


def find_gaussian_crossover(task: Task, epsilon: Fraction) -> Crossover | None:
    """The number of questions at once from which on Gaussian noise has the smaller error than Laplace noise, or the same: it
    has the smaller one there, and the larger one for no later number that is tried. Where these would be too many, a number
    for which it has the smaller one and for one less it has not, and no word about later ones."""
    if task.delta == 0:
        return None
    laplace, gaussian, _ = CENTRAL_MECHANISMS

    def lead(queries: int) -> Fraction:
        many = replace(task, queries=queries)
        mine, other = (way.predict_accuracy(many, epsilon, None).get(task.metric) for way in (gaussian, laplace))
        return other - mine

    first = smallest_int_where(lambda queries: lead(queries) > 0, MAX_QUERIES)
    if first is None:
        return None
    end = max(MIN_TRIED, 4 * first)
    leads = [(queries, lead(queries)) for queries in range(first, end + 1)] if end <= MAX_TRIED else []
    at, said = _describe_leads(leads) or (first, f"begins to beat Laplace noise at about {_format_queries(first)} at once")
    where = f"(here {task.queries:,}), at ε = {float(epsilon):.4g}, δ = {float(task.delta):g}"
    return Crossover("Gaussian", "queries", at, f"Gaussian noise {said} {where}.")


def _describe_leads(leads: list[tuple[int, Fraction]]) -> tuple[int, str] | None:
    """From where on it wins or ties, as far as that was tried; none if it loses up to the end."""
    lost = max((queries for queries, by in leads if by < 0), default=0)
    tied = max((queries for queries, by in leads if by == 0), default=0)
    at = next((queries for queries, by in leads if queries > lost and by > 0), None)
    if at is None:
        return None
    start, end = f"from {_format_queries(at)} at once on", leads[-1][0]
    if tied < at:
        return at, f"beats Laplace noise {start}, as tried up to {end:,}"
    better = f", and better from {tied + 1:,} on" if tied < end else ""
    return at, f"is never worse than Laplace noise {start}{better}, as tried up to {end:,}"


def _format_queries(queries: int) -> str:
    return f"{queries:,} such question{'s' * (queries > 1)}"


def find_response_crossover(task: Task, goal: Goal, epsilon: Fraction) -> Crossover | None:
    """The number of people from which on randomised response meets the goal, nobody being trusted with the data."""
    at = solve_n(LOCAL_MECHANISM, task, goal, epsilon)
    if at is None:
        return None
    said = f"Randomised response, where nobody holds the data, is as good from about n = {at:,} on"
    return Crossover(LOCAL_MECHANISM.name, "n", at, f"{said}, at ε = {float(epsilon):.4g}.")


def find_warnings(task: Task, epsilon: Fraction, delta: Fraction, n: int | None, half_width: Fraction) -> tuple[str, ...]:
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
    if epsilon > WEAK_EPSILON:
        factor = exp(min(float(epsilon), 700.0))
        odds = f"{factor:,.0f}" if epsilon < 20 else f"{factor:.1e}"
        said.append(
            f"ε = {float(epsilon):.4g} is above {WEAK_EPSILON}: an answer may be {odds} times as likely with "
            "somebody's record as "
            "without it, which promises next to nothing."
        )
    if n is not None and half_width >= reference_size(task.query, n):
        said.append("The noise is as large as the answer can be: this says nothing about the people.")
    return tuple(said)
