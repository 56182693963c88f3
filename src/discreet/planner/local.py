"""Noise that each person adds to their own answer: randomised response, and what is estimated from n reports.

For k questions everybody answers each with ε/k. In a histogram a person names a cell. A value between bounds becomes a bit
first, 1 with probability (value − lower)/(upper − lower), and the bit is answered for: the estimate stays unbiased.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import sqrt

from discreet.mechanisms import RandomizedResponse
from discreet.mechanisms.quantile import SAFETY_FACTOR, tail_per_error
from discreet.planner.questions import Histogram, Mean, Sum
from discreet.planner.reports import report_deviation_quantile
from discreet.planner.task import Accuracy, ErrorMetric, Task

MAX_EXHAUSTIVE_N, MAX_NINE_SHARES_N = 64, 10_000
"""Up to FEW people every possible number of yes-sayers is tried; past it nine shares (three past MANY, where
the quantile hardly depends on the share), and one report is added for those between."""


@dataclass(frozen=True, slots=True)
class LocalMechanism:
    """Randomised response."""

    name: str = "randomised response"
    pure: bool = True

    def build_noise(self, task: Task, epsilon: Fraction) -> RandomizedResponse:
        """What everybody answers each question with."""
        choices = task.query.cells if isinstance(task.query, Histogram) else 2
        return RandomizedResponse.for_epsilon(epsilon / task.queries, choices)

    def predict_accuracy(self, task: Task, epsilon: Fraction, n: int | None) -> Accuracy:
        """The worst over what people's true answers may be. All cells of one histogram at once by the union bound."""
        assert n is not None
        answer = self.build_noise(task, epsilon)
        together = tail_per_error(task.confidence, task.queries) * task.queries / task.answers
        each, largest = (
            _worst_report_error(answer, task, n, tail) for tail in (tail_per_error(task.confidence, 1), together)
        )
        unit = _estimate_per_report(answer, task) / (n if task.divides_by_n else 1)
        return Accuracy(each * unit, largest * unit, Fraction(_worst_deviation(answer, task, n)) * unit)

    def textbook_half_width(self, task: Task, epsilon: Fraction, n: int | None) -> float | None:
        """Hoeffding's bound [S4, ex. 2.5], for each answer a share of what may be missed."""
        assert n is not None
        answer, size = self.build_noise(task, epsilon), 1 if task.metric is ErrorMetric.EACH else task.answers
        bound = answer.error(1 - (1 - task.confidence) / size, n)
        return bound * float(_value_width(task)) / (n if task.divides_by_n else 1)


def _value_width(task: Task) -> Fraction:
    """How much one person's bit stands for."""
    question = task.query
    return question.upper - question.lower if isinstance(question, Sum | Mean) else Fraction(1)


def _estimate_per_report(answer: RandomizedResponse, task: Task) -> Fraction:
    """What one report moves the estimate by."""
    return _value_width(task) / (answer.truth - answer.other)


def _worst_report_error(answer: RandomizedResponse, task: Task, n: int, tail: float) -> Fraction:
    """How many reports too many or too few, at worst.

    Bits of values: among all ways to have a given mean the binomial law has the least mass in any interval around it
    [Hoe56, Thm 5], and everybody with the same value reaches it; the law is widest where a report is a fair coin.
    """
    p, q = min(float(answer.truth), 1 - 2**-53), float(answer.other)
    shares = (0, 4, 8) if n > MAX_NINE_SHARES_N else range(9)
    if isinstance(task.query, Sum | Mean):
        centres = [q + (p - q) * i / 16 for i in shares]
        return Fraction(max(report_deviation_quantile(n, n, centre, 0.5, tail) for centre in centres) + 1)
    last = n // 2 if answer.choices == 2 else n  # two choices are each other's mirror image
    if n <= MAX_EXHAUSTIVE_N:
        return Fraction(max(report_deviation_quantile(n, h, p, q, tail) for h in range(last + 1)))
    return Fraction(max(report_deviation_quantile(n, last * i // 8, p, q, tail) for i in shares) + 1)


def _worst_deviation(answer: RandomizedResponse, task: Task, n: int) -> float:
    """The standard deviation of the number of reports, at worst: it is linear in how many people have an answer."""
    if isinstance(task.query, Sum | Mean):
        return sqrt(n) / 2 * SAFETY_FACTOR
    gap = float(answer.truth - answer.other)
    return max(answer.standard_deviation(n, holders) for holders in (0, n)) * gap * SAFETY_FACTOR


LOCAL_MECHANISM = LocalMechanism()
