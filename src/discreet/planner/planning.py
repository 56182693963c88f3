"""`plan`: read and check the parameters, solve each mechanism for the one that is missing, and sort by it.

Theory of operation: `plan` → `Task` and `Goal` → one `Row` per mechanism (`search`) → `Plan`, best row first, with the
numbers of queries or people from which another mechanism is better, and with warnings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import overload

from discreet._numbers import (
    Number,
    ceil_float,
    check_confidence,
    check_int,
    check_positive,
    format_rational,
    format_up,
    read_decimal,
    read_positive,
    to_rational,
)
from discreet.errors import BadParameter
from discreet.planner.mechanisms import CENTRAL_MECHANISMS, LOCAL_MECHANISM, Mechanism
from discreet.planner.result import Plan, Row, Unknown
from discreet.planner.search import (
    Crossover,
    find_gaussian_crossover,
    find_response_crossover,
    find_warnings,
    solve_epsilon,
    solve_n,
)
from discreet.planner.task import ErrorMetric, Goal, PlannerQuery, Task, divides_by_n, resolve_neighbours
from discreet.planner.training import Training, TrainingPlan, plan_training
from discreet.query.calibrate import MAX_EPSILON, read_error
from discreet.units import Neighbours


@overload
def plan(query: Training, *, epsilon: Number | None = None, delta: Number) -> TrainingPlan: ...


@overload
def plan(
    query: PlannerQuery,
    *,
    error: Number | str | None = None,
    rmse: Number | str | None = None,
    epsilon: Number | None = None,
    delta: Number = 0,
    n: int | None = None,
    queries: int = 1,
    confidence: Number = Fraction(19, 20),
    size: Number | None = None,
    each: bool = False,
    neighbours: Neighbours | None = None,
) -> Plan: ...


def plan(
    query: PlannerQuery | Training,
    *,
    error: Number | str | None = None,
    rmse: Number | str | None = None,
    epsilon: Number | None = None,
    delta: Number = 0,
    n: int | None = None,
    queries: int = 1,
    confidence: Number = Fraction(19, 20),
    size: Number | None = None,
    each: bool = False,
    neighbours: Neighbours | None = None,
) -> Plan | TrainingPlan:
    """Find the ε, the error or the number of people n from the other two, and the best mechanism.

    `error` is a half-width at the confidence (of the largest error of all cells and queries, or of `each` alone), `rmse` a
    root mean square error; "5%" is relative to `size`, or to the whole answer. `queries` such queries are run at once, and ε
    and δ are the cost of all of them together.

    A `Training` run has a noise multiplier in place of an error, and a number of steps in place of n: two of σ, ε and the
    steps give the third.

    >>> from discreet import Count, Mean, Proportion, plan
    >>> plan(Mean(0, 100), error=2, n=1000).epsilon
    0.1498
    >>> plan(Mean(0, 100), error=2, epsilon=0.5).n
    300
    >>> plan(Count(), epsilon=1, n=1000).half_width
    3.0
    >>> plan(Proportion(), error="1%", epsilon=1).crossovers[0].at > 30_000
    True
    """
    if isinstance(query, Training):
        others = {"error": error, "rmse": rmse, "n": n, "size": size, "neighbours": neighbours}
        others |= {"queries": None if queries == 1 else queries, "each": each or None}
        others |= {"confidence": None if confidence == Fraction(19, 20) else confidence}
        _refuse_for_training(others)
        return plan_training(query, epsilon, delta)
    if not isinstance(query, PlannerQuery):
        hint = "give Count(), Proportion(), Sum(0, 100), Mean(0, 100), Histogram(12) or Training(…)"
        raise BadParameter("query", f"of type {type(query).__name__}", "not a query that can be planned", hint)
    if neighbours is not None:
        neighbours = neighbours if isinstance(neighbours, Neighbours) else Neighbours.parse(neighbours)
    accuracy = rmse if error is None else error
    if error is not None and rmse is not None:
        raise BadParameter("rmse", rmse, "error is given too", "give one of the two")
    metric = ErrorMetric.RMSE if rmse is not None else ErrorMetric.EACH if each else ErrorMetric.LARGEST
    check_confidence(confidence)
    task = Task(
        query,
        resolve_neighbours(query, neighbours),
        check_int(queries, "queries", 1),
        _read_delta(delta),
        to_rational(confidence),
        metric,
    )
    goal = None if accuracy is None else _read_goal(accuracy, size)
    cost = None if epsilon is None else read_positive(epsilon, "epsilon")
    people = None if n is None else check_int(n, "n", 1)
    return _Request(task, goal, cost, people).solve()


def _refuse_for_training(given: Mapping[str, object]) -> None:
    """Refuse what a training run has not."""
    hints = {"n": "give it to Training(n=…)", "neighbours": "plan for add-remove; dpsgd(neighbours=…) has replace"}
    for name, value in given.items():
        if value is not None:
            raise BadParameter(name, value, "a training run takes epsilon= and delta= only", hints.get(name, "omit it"))


def _read_delta(delta: Number) -> Fraction:
    exact = read_decimal(delta, "delta")
    if not 0 <= exact < 1:
        raise BadParameter("delta", format_rational(exact), "must be at least 0 and below 1", "give 0, or a δ far below 1/n")
    return exact


def _read_goal(accuracy: Number | str, size: Number | None) -> Goal:
    amount, relative = read_error(accuracy)
    if size is not None and not relative:
        raise BadParameter("size", size, "the error is not relative", 'write error="5%", or omit size=')
    return Goal(amount, relative, None if size is None else check_positive(size, "size"))


@dataclass(frozen=True, slots=True)
class _Request:
    task: Task
    goal: Goal | None
    epsilon: Fraction | None
    n: int | None

    def solve(self) -> Plan:
        """Solve every mechanism and sort the rows."""
        unknown = self._find_unknown()
        mechanisms: list[Mechanism] = [each for each in CENTRAL_MECHANISMS if each.pure or self.task.delta > 0]
        infeasible = [] if self.task.delta > 0 else [("Gaussian noise", "it needs a δ above 0")]
        if unknown == "n" or self.n is not None:
            mechanisms.append(LOCAL_MECHANISM)
        else:
            infeasible.append((LOCAL_MECHANISM.name, "its error depends on n, which is not given"))
        rows = []
        for mechanism in mechanisms:
            row = self._solve_row(mechanism, unknown)
            if row is None:
                infeasible.append((mechanism.name, self._explain_infeasible(mechanism, unknown)))
            else:
                rows.append(row)
        if not rows:
            raise self._infeasible_error(unknown)
        rows.sort(key=lambda row: (_sort_key(row, unknown, self.task.metric), row.delta))
        crossovers, warnings = self._find_crossovers(rows[0]), self._find_warnings(rows[0])
        return Plan(self.task, self.goal, unknown, tuple(rows), tuple(infeasible), crossovers, warnings)

    def _find_unknown(self) -> Unknown:
        task, goal = self.task, self.goal
        needs_n = divides_by_n(task.query) or (goal is not None and goal.depends_on_n(task.query))
        if goal is not None and self.epsilon is not None:
            if self.n is not None:
                raise BadParameter("n", self.n, "accuracy, ε and n are all given", "omit one of the three")
            if not needs_n:
                raise self._n_has_no_effect()
            return "n"
        if self.epsilon is None and goal is None:
            raise BadParameter(
                "epsilon", "missing", "two of accuracy, ε and n are needed", "give, for example, error= and n="
            )
        if needs_n and self.n is None:
            raise BadParameter("n", "missing", f"the error of a {task.query} depends on it", "give n=, the number of people")
        return "epsilon" if self.epsilon is None else "error"

    def _n_has_no_effect(self) -> BadParameter:
        """Explain that n has no effect: say which error this ε gives, and which ε this error costs."""
        assert self.goal is not None
        assert self.epsilon is not None
        best = _Request(self.task, None, self.epsilon, None).solve().winner
        cost = _Request(self.task, self.goal, None, None).solve().winner
        return BadParameter(
            "n",
            "missing",
            f"the noise of a {self.task.query} is the same for any n: ± {format_up(best.half_width, 6)} at this ε, and "
            f"this error costs ε = {format_up(cost.epsilon)}",
            'omit epsilon=, or give a relative error, error="5%"',
        )

    def _solve_row(self, mechanism: Mechanism, unknown: Unknown) -> Row | None:
        epsilon, n = self.epsilon, self.n
        if unknown == "epsilon":
            assert self.goal is not None
            epsilon = solve_epsilon(mechanism, self.task, self.goal, n)
        elif unknown == "n":
            assert self.goal is not None
            assert epsilon is not None
            n = solve_n(mechanism, self.task, self.goal, epsilon)
        if epsilon is None or (unknown == "n" and n is None):
            return None
        accuracy = mechanism.predict_accuracy(self.task, epsilon, n)
        return Row(
            mechanism=mechanism.name,
            noise=mechanism.build_noise(self.task, epsilon),
            epsilon=ceil_float(epsilon),
            delta=0.0 if mechanism.pure else float(self.task.delta),
            n=n,
            half_width=ceil_float(accuracy.each if self.task.metric is ErrorMetric.EACH else accuracy.largest),
            each=ceil_float(accuracy.each),
            rmse=ceil_float(accuracy.rmse),
            textbook=mechanism.textbook_half_width(self.task, epsilon, n),
        )

    def _explain_infeasible(self, mechanism: Mechanism, unknown: Unknown) -> str:
        if unknown == "n":
            return "no n up to 10^15 is enough"
        try:
            least = mechanism.predict_accuracy(self.task, Fraction(MAX_EPSILON), self.n).get(self.task.metric)
        except BadParameter as refused:
            return f"at ε = {MAX_EPSILON} its {refused.name} would be {refused.value}: {refused.reason}"
        return f"its error is {format_up(least)} even at ε = {MAX_EPSILON}"

    def _infeasible_error(self, unknown: Unknown) -> BadParameter:
        """Explain that no mechanism reaches the goal, and what would be possible instead."""
        assert self.goal is not None
        if unknown == "n":
            return BadParameter(
                "error",
                self.goal.format(self.task.query),
                self._explain_infeasible(LOCAL_MECHANISM, unknown),
                "raise ε or the error",
            )
        best = _Request(self.task, None, Fraction(10), self.n).solve().winner
        hint = f"at ε = 10 {best.mechanism} reaches {format_up(best.get_error(self.task.metric))}"
        if divides_by_n(self.task.query):
            people = solve_n(CENTRAL_MECHANISMS[0], self.task, self.goal, Fraction(10))
            hint += "" if people is None else f", and n = {people:,} people are enough at ε = 10"
        reason = f"no ε up to {MAX_EPSILON} is enough"
        return BadParameter("error", self.goal.format(self.task.query), reason, hint)

    def _find_crossovers(self, best: Row) -> tuple[Crossover, ...]:
        epsilon = Fraction(best.epsilon)
        crossovers = [find_gaussian_crossover(self.task, epsilon)]
        goal = self.goal
        error = Fraction(best.get_error(self.task.metric))
        if goal is None and divides_by_n(self.task.query) and error > 0:  # randomised response has no error of 0
            goal = Goal(error, False, None)
        if goal is not None and (divides_by_n(self.task.query) or goal.depends_on_n(self.task.query)):
            crossovers.append(find_response_crossover(self.task, goal, epsilon))
        return tuple(crossover for crossover in crossovers if crossover is not None)

    def _find_warnings(self, best: Row) -> tuple[str, ...]:
        return find_warnings(self.task, Fraction(best.epsilon), self.task.delta, best.n, Fraction(best.half_width))


def _sort_key(row: Row, unknown: Unknown, metric: ErrorMetric) -> float:
    if unknown == "epsilon":
        return row.epsilon
    if unknown == "n":
        return float(row.n or 0)
    return row.get_error(metric)
