"""What is asked of a mechanism, and how good its answer is."""

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from discreet.exact import format_rational
from discreet.planner.questions import (
    PlannerQuery,
    count_cells,
    describe_reference,
    divides_by_n,
    grows_with_n,
    query_sensitivity,
    reference_size,
)
from discreet.units import Neighbours, Sensitivity


class ErrorMetric(Enum):
    """Which error is meant."""

    LARGEST = "the largest error of all answers"
    EACH = "the error of each answer alone"
    RMSE = "the root mean square error of each answer"


@dataclass(frozen=True, slots=True)
class Task:
    """So many questions of one kind at once, each about everybody."""

    query: PlannerQuery
    neighbours: Neighbours
    queries: int
    delta: Fraction
    confidence: Fraction
    metric: ErrorMetric

    @property
    def answers(self) -> int:
        """How many noisy numbers come out."""
        return count_cells(self.query) * self.queries

    @property
    def sensitivity(self) -> Sensitivity:
        """How far one person moves all of them."""
        return query_sensitivity(self.query, self.neighbours, self.queries)

    @property
    def divides_by_n(self) -> bool:
        """Whether the answers are totals divided by n."""
        return divides_by_n(self.query)


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Half-widths of one answer and of all at once, at the task's confidence, and the root mean square error of one."""

    each: Fraction
    largest: Fraction
    rmse: Fraction

    def get(self, metric: ErrorMetric) -> Fraction:
        """The one that is meant."""
        return {ErrorMetric.LARGEST: self.largest, ErrorMetric.EACH: self.each, ErrorMetric.RMSE: self.rmse}[metric]

    def divide_by(self, divisor: int) -> "Accuracy":
        """The accuracy of totals divided by a public number."""
        return Accuracy(self.each / divisor, self.largest / divisor, self.rmse / divisor)


@dataclass(frozen=True, slots=True)
class Goal:
    """The error that is allowed: an amount, or a share of a size (of the whole answer, unless a size is given)."""

    amount: Fraction
    relative: bool
    size: Fraction | None

    def depends_on_n(self, query: PlannerQuery) -> bool:
        """Whether the allowance itself grows with n."""
        return self.relative and self.size is None and grows_with_n(query)

    def allowed_error(self, query: PlannerQuery, n: int | None) -> Fraction:
        """In the answer's own unit."""
        if not self.relative:
            return self.amount
        if self.size is not None:
            return self.amount * self.size
        return self.amount * reference_size(query, 1 if n is None else n)

    def format(self, query: PlannerQuery) -> str:
        """As it was asked for."""
        if not self.relative:
            return format_rational(self.amount)
        share = f"{float(100 * self.amount):g}%"
        return (
            f"{share} of {format_rational(self.size)}" if self.size is not None else f"{share} {describe_reference(query)}"
        )
