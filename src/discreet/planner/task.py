"""What can be planned: counts, proportions, sums, means and histograms, each as noisy statistics with a public divisor.

A proportion and a mean divide a noisy statistic by a public number of people, so neighbours replace one person. Where the
number is not public, use a sum and a count.
"""

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import TypeAlias, assert_never

from discreet import units
from discreet._numbers import Number, check_int, format_decimal, to_rational
from discreet.errors import BadParameter
from discreet.units import Neighbours, Sensitivity


@dataclass(frozen=True, slots=True)
class Count:
    """The number of people who satisfy a predicate."""

    def __str__(self) -> str:
        return "count"


@dataclass(frozen=True, slots=True)
class Proportion:
    """The share of n people who satisfy a predicate, n being public."""

    def __str__(self) -> str:
        return "proportion"


@dataclass(frozen=True, slots=True, init=False)
class _ClippedQuery:
    lower: Fraction
    upper: Fraction
    whole: bool

    def __init__(self, lower: Number, upper: Number, *, whole: bool = False) -> None:
        low, high = to_rational(lower, "lower"), to_rational(upper, "upper")
        if low >= high:
            raise BadParameter(
                "lower",
                format_decimal(low),
                f"it must lie below the upper bound, {format_decimal(high)}",
                "give the smaller bound first",
            )
        if whole and not low.denominator == high.denominator == 1:
            raise BadParameter("whole", "true", "a bound is not an integer", "give whole bounds, or omit whole=True")
        for name, value in (("lower", low), ("upper", high), ("whole", whole)):
            object.__setattr__(self, name, value)

    def __str__(self) -> str:
        kind = "whole values" if self.whole else "values"
        return f"{type(self).__name__.lower()} of {kind} in [{format_decimal(self.lower)}, {format_decimal(self.upper)}]"


@dataclass(frozen=True, slots=True, init=False)
class Sum(_ClippedQuery):
    """The sum of values clipped to declared bounds. `whole` values are integers; others are rounded to a fine grid.

    >>> Sum(0, 100), str(Sum(0, 100))
    (Sum(lower=Fraction(0, 1), upper=Fraction(100, 1), whole=False), 'sum of values in [0, 100]')
    """


@dataclass(frozen=True, slots=True, init=False)
class Mean(_ClippedQuery):
    """The mean of n values clipped to declared bounds, n being public."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts over disjoint cells: each person is in one of them."""

    cells: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "cells", check_int(self.cells, "cells", 2))

    def __str__(self) -> str:
        return f"histogram with {self.cells:,} cells"


PlannerQuery: TypeAlias = Count | Proportion | Sum | Mean | Histogram


def count_cells(query: PlannerQuery) -> int:
    """Return how many numbers one query returns."""
    return query.cells if isinstance(query, Histogram) else 1


def is_real(query: PlannerQuery) -> bool:
    """Whether the statistics are reals on a grid rather than integers."""
    return isinstance(query, Sum | Mean) and not query.whole


def divides_by_n(query: PlannerQuery) -> bool:
    """Whether the answer is a statistic divided by n."""
    return isinstance(query, Proportion | Mean)


def resolve_neighbours(query: PlannerQuery, neighbours: Neighbours | None) -> Neighbours:
    """Return the neighbouring relation: add/remove unless given, and replace where n is public."""
    if divides_by_n(query):
        if neighbours is Neighbours.ADD_REMOVE:
            units.proportion(1, neighbours)  # raises, and explains why
        return Neighbours.REPLACE
    return Neighbours.ADD_REMOVE if neighbours is None else neighbours


def query_sensitivity(query: PlannerQuery, neighbours: Neighbours, queries: int) -> Sensitivity:
    """Return how far one person moves the statistics of so many queries at once, if they count in each.

    Sensitivity argument: one person moves l0 numbers of one query by at most linf each, so l0·queries numbers in all.

    >>> query_sensitivity(Histogram(50), Neighbours.REPLACE, 3)
    Sensitivity(l0=6, l1=6, l2=2.44948974278, linf=1)
    """
    match query:
        case Count() | Proportion():
            once = units.count(neighbours)
        case Sum(lower=lower, upper=upper) | Mean(lower=lower, upper=upper):
            once = units.bounded_sum(lower, upper, neighbours)
        case Histogram():
            once = units.histogram(neighbours)
        case _:
            assert_never(query)
    assert once.l0 is not None
    return Sensitivity(l0=once.l0 * queries, linf=once.linf)


def reference_size(query: PlannerQuery, n: int) -> Fraction:
    """Return what a percentage is relative to, unless a size is given.

    n for a count, the average cell for a histogram, 1 for a proportion (percentage points), the width of the bounds for a
    mean, n times the farther bound for a sum.
    """
    match query:
        case Count():
            return Fraction(n)
        case Proportion():
            return Fraction(1)
        case Sum(lower=lower, upper=upper):
            return n * max(abs(lower), abs(upper))
        case Mean(lower=lower, upper=upper):
            return upper - lower
        case Histogram(cells=cells):
            return Fraction(n, cells)
        case _:
            assert_never(query)


def describe_reference(query: PlannerQuery) -> str:
    """Write what a percentage is relative to."""
    match query:
        case Count():
            return "of n"
        case Proportion():
            return "of the whole"
        case Sum():
            return "of n times the farther bound"
        case Mean():
            return "of the width of the bounds"
        case Histogram():
            return "of an average cell, n/cells"
        case _:
            assert_never(query)


def grows_with_n(query: PlannerQuery) -> bool:
    """Whether a percentage is relative to something that grows with n."""
    return isinstance(query, Count | Sum | Histogram)


# -- tasks, goals and accuracy ----------------------------------------------------------------------------------------------


class ErrorMetric(Enum):
    """Which error is predicted."""

    LARGEST = "the largest error of all answers"
    EACH = "the error of each answer alone"
    RMSE = "the root mean square error of each answer"


@dataclass(frozen=True, slots=True)
class Task:
    """Several queries of one kind at once, each about all people, with δ, confidence and metric."""

    query: PlannerQuery
    neighbours: Neighbours
    queries: int
    delta: Fraction
    confidence: Fraction
    metric: ErrorMetric

    @property
    def answers(self) -> int:
        """How many noisy numbers all queries return."""
        return count_cells(self.query) * self.queries

    @property
    def sensitivity(self) -> Sensitivity:
        """How far one person moves all of them."""
        return query_sensitivity(self.query, self.neighbours, self.queries)

    @property
    def divides_by_n(self) -> bool:
        """Whether the answers are statistics divided by n."""
        return divides_by_n(self.query)


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Half-widths of one answer and of all at once, at the task's confidence, and the root mean square error of one."""

    each: Fraction
    largest: Fraction
    rmse: Fraction

    def get(self, metric: ErrorMetric) -> Fraction:
        """Return the error by a metric."""
        return {ErrorMetric.LARGEST: self.largest, ErrorMetric.EACH: self.each, ErrorMetric.RMSE: self.rmse}[metric]

    def divide_by(self, divisor: int) -> "Accuracy":
        """Return the accuracy of the statistics divided by a public number."""
        return Accuracy(self.each / divisor, self.largest / divisor, self.rmse / divisor)


@dataclass(frozen=True, slots=True)
class Goal:
    """The allowed error: an amount, or a share of a size (of the whole answer, unless a size is given)."""

    amount: Fraction
    relative: bool
    size: Fraction | None

    def depends_on_n(self, query: PlannerQuery) -> bool:
        """Whether the allowed error grows with n."""
        return self.relative and self.size is None and grows_with_n(query)

    def allowed_error(self, query: PlannerQuery, n: int | None) -> Fraction:
        """Return the allowed error in the unit of the answer."""
        if not self.relative:
            return self.amount
        if self.size is not None:
            return self.amount * self.size
        return self.amount * reference_size(query, 1 if n is None else n)

    def format(self, query: PlannerQuery) -> str:
        """Write the goal as it was given."""
        if not self.relative:
            return format_decimal(self.amount)
        share = f"{float(100 * self.amount):g}%"
        return f"{share} of {format_decimal(self.size)}" if self.size is not None else f"{share} {describe_reference(query)}"
