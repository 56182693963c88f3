"""`plan`: what is asked is read and checked, each mechanism is solved for what is missing, and the best comes first."""

from dataclasses import dataclass
from fractions import Fraction

from discreet.accuracy import MOST_EPSILON, read_error
from discreet.errors import BadParameter
from discreet.exact import Number, ceil_float, positive, rational, read_decimal, read_positive, shown, shown_up, whole
from discreet.mechanisms.quantile import confident
from discreet.planner.central import CENTRAL
from discreet.planner.crossing import Crossover, gaussian_wins, response_usable, warnings
from discreet.planner.local import LOCAL
from discreet.planner.questions import Question, divides, relation
from discreet.planner.result import Plan, Row, Unknown
from discreet.planner.solve import Way, least_epsilon, least_n
from discreet.planner.task import Aim, Goal, Task
from discreet.units import Neighbours


def plan(
    question: Question,
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
) -> Plan:
    """Which ε, which error, or how many people, and with which mechanism: give two, get the third.

    `error` is a half-width at the confidence (of the largest error of all cells and questions, or of `each` alone), `rmse` a
    root mean square error; "5%" is relative to `size`, or to the whole answer. `queries` such questions are asked at once,
    and ε and δ pay for all of them.

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
    accuracy = rmse if error is None else error
    if error is not None and rmse is not None:
        raise BadParameter("rmse", rmse, "error says the same thing", "give one of the two")
    aim = Aim.RMSE if rmse is not None else Aim.EACH if each else Aim.LARGEST
    confident(confidence)
    task = Task(
        question, relation(question, neighbours), whole(queries, "queries", 1), _delta(delta), rational(confidence), aim
    )
    goal = None if accuracy is None else _goal(accuracy, size)
    price = None if epsilon is None else read_positive(epsilon, "epsilon")
    people = None if n is None else whole(n, "n", 1)
    return _Asked(task, goal, price, people).answer()


def _delta(delta: Number) -> Fraction:
    exact = read_decimal(delta, "delta")
    if not 0 <= exact < 1:
        raise BadParameter("delta", shown(exact), "must be at least 0 and below 1", "give 0, or one far below 1/n")
    return exact


def _goal(accuracy: Number | str, size: Number | None) -> Goal:
    amount, relative = read_error(accuracy)
    if size is not None and not relative:
        raise BadParameter("size", size, "the error is not relative", 'write error="5%", or leave the size out')
    return Goal(amount, relative, None if size is None else positive(size, "size"))


@dataclass(frozen=True, slots=True)
class _Asked:
    task: Task
    goal: Goal | None
    epsilon: Fraction | None
    n: int | None

    def answer(self) -> Plan:
        """The plan."""
        unknown = self._unknown()
        ways: list[Way] = [way for way in CENTRAL if way.pure or self.task.delta > 0]
        left_out = [] if self.task.delta > 0 else [("Gaussian noise", "it needs a δ above 0")]
        if unknown == "n" or self.n is not None:
            ways.append(LOCAL)
        else:
            left_out.append((LOCAL.name, "its error depends on n, which is not given"))
        rows = []
        for way in ways:
            row = self._row(way, unknown)
            rows += [] if row is None else [row]
            left_out += [(way.name, self._why_not(way, unknown))] if row is None else []
        if not rows:
            raise self._impossible(unknown)
        rows.sort(key=lambda row: (_rank(row, unknown, self.task.aim), row.delta))
        crossovers = self._crossovers(rows[0])
        return Plan(self.task, self.goal, unknown, tuple(rows), tuple(left_out), crossovers, self._warnings(rows[0]))

    def _unknown(self) -> Unknown:
        task, goal = self.task, self.goal
        needs_n = divides(task.question) or (goal is not None and goal.depends_on_n(task.question))
        if goal is not None and self.epsilon is not None:
            if self.n is not None:
                raise BadParameter("n", self.n, "accuracy, ε and n are all given", "leave one of the three out")
            if not needs_n:
                raise self._any_n()
            return "n"
        if self.epsilon is None and goal is None:
            raise BadParameter("epsilon", "missing", "two of accuracy, ε and n give the third", "give error= and n=, say")
        if needs_n and self.n is None:
            raise BadParameter(
                "n", "missing", f"the error of a {task.question} depends on it", "give n, the number of people"
            )
        return "epsilon" if self.epsilon is None else "error"

    def _any_n(self) -> BadParameter:
        """Accuracy and ε are given, and n would not matter: say what this ε gives, and what the error costs."""
        assert self.goal is not None
        assert self.epsilon is not None
        best = _Asked(self.task, None, self.epsilon, None).answer().winner
        cost = _Asked(self.task, self.goal, None, None).answer().winner
        return BadParameter(
            "n",
            "missing",
            f"the noise of a {self.task.question} is the same for any n: ± {shown_up(best.half_width, 6)} at this ε, and "
            f"this error costs ε = {shown_up(cost.epsilon)}",
            'leave ε out, or give a share of the answer, error="5%"',
        )

    def _row(self, way: Way, unknown: Unknown) -> Row | None:
        epsilon, n = self.epsilon, self.n
        if unknown == "epsilon":
            assert self.goal is not None
            epsilon = least_epsilon(way, self.task, self.goal, n)
        elif unknown == "n":
            assert self.goal is not None
            assert epsilon is not None
            n = least_n(way, self.task, self.goal, epsilon)
        if epsilon is None or (unknown == "n" and n is None):
            return None
        found, textbook = way.accuracy(self.task, epsilon, n), way.textbook(self.task, epsilon, n)
        wide = found.each if self.task.aim is Aim.EACH else found.largest
        delta = 0.0 if way.pure else float(self.task.delta)
        return Row(
            mechanism=way.name, noise=way.noise(self.task, epsilon), epsilon=ceil_float(epsilon), delta=delta, n=n,
            half_width=ceil_float(wide), each=ceil_float(found.each), rmse=ceil_float(found.rmse), textbook=textbook,
        )  # fmt: skip

    def _why_not(self, way: Way, unknown: Unknown) -> str:
        if unknown == "n":
            return "no n up to 10^15 is enough"
        try:
            least = way.accuracy(self.task, Fraction(MOST_EPSILON), self.n).aimed(self.task.aim)
        except BadParameter as refused:
            return f"at ε = {MOST_EPSILON} its {refused.name} would be {refused.shown}: {refused.reason}"
        return f"even at ε = {MOST_EPSILON} it is off by {shown_up(least)}"

    def _impossible(self, unknown: Unknown) -> BadParameter:
        """What would be possible instead."""
        assert self.goal is not None
        if unknown == "n":
            return BadParameter(
                "error", self.goal.in_words(self.task.question), self._why_not(LOCAL, unknown), "raise ε or the error"
            )
        best = _Asked(self.task, None, Fraction(10), self.n).answer().winner
        found = best.rmse if self.task.aim is Aim.RMSE else best.half_width
        instead = f"at ε = 10 {best.mechanism} reaches {shown_up(found)}"
        enough = (
            [least_n(way, self.task, self.goal, Fraction(10)) for way in CENTRAL[:1]] if divides(self.task.question) else []
        )
        more = "".join(f", and n = {people:,} people would do at ε = 10" for people in enough if people is not None)
        reason = f"no ε up to {MOST_EPSILON} is enough"
        return BadParameter("error", self.goal.in_words(self.task.question), reason, f"{instead}{more}")

    def _crossovers(self, best: Row) -> tuple[Crossover, ...]:
        epsilon = Fraction(best.epsilon)
        found = [gaussian_wins(self.task, epsilon)]
        goal = self.goal
        reached = Fraction(best.rmse if self.task.aim is Aim.RMSE else best.half_width)
        if goal is None and divides(self.task.question) and reached > 0:  # no number of coins is never off
            goal = Goal(reached, False, None)
        if goal is not None and (divides(self.task.question) or goal.depends_on_n(self.task.question)):
            found.append(response_usable(self.task, goal, epsilon))
        return tuple(crossover for crossover in found if crossover is not None)

    def _warnings(self, best: Row) -> tuple[str, ...]:
        return warnings(self.task, Fraction(best.epsilon), self.task.delta, best.n, Fraction(best.half_width))


def _rank(row: Row, unknown: Unknown, aim: Aim) -> float:
    if unknown == "epsilon":
        return row.epsilon
    if unknown == "n":
        return float(row.n or 0)
    return row.rmse if aim is Aim.RMSE else row.half_width
