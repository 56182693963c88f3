"""What can be planned: counts, shares, sums, means and histograms, each as whole totals with noise and a public divisor.

A share and a mean are a noisy total over a number of people that is public, so one person is replaced, not removed. Where
the number is not public, ask for a sum and a count.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias, assert_never

from discreet import units
from discreet.errors import BadParameter
from discreet.exact import Number, check_int, format_rational, to_rational
from discreet.units import Neighbours, Sensitivity


@dataclass(frozen=True, slots=True)
class Count:
    """How many people satisfy a predicate."""

    def __str__(self) -> str:
        return "count"


@dataclass(frozen=True, slots=True)
class Proportion:
    """Which share of n people satisfies a predicate."""

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
                format_rational(low),
                f"must lie below upper = {format_rational(high)}",
                "clamp to a proper interval",
            )
        if whole and not low.denominator == high.denominator == 1:
            raise BadParameter("whole", "true", "a bound is no whole number", "give whole bounds, or leave it out")
        for name, value in (("lower", low), ("upper", high), ("whole", whole)):
            object.__setattr__(self, name, value)

    def __str__(self) -> str:
        kind = "whole values" if self.whole else "values"
        return f"{type(self).__name__.lower()} of {kind} in [{format_rational(self.lower)}, {format_rational(self.upper)}]"


@dataclass(frozen=True, slots=True, init=False)
class Sum(_ClippedQuery):
    """The sum of values clamped to declared bounds. `whole` values stay whole; others go on a fine grid.

    >>> Sum(0, 100), str(Sum(0, 100))
    (Sum(lower=Fraction(0, 1), upper=Fraction(100, 1), whole=False), 'sum of values in [0, 100]')
    """


@dataclass(frozen=True, slots=True, init=False)
class Mean(_ClippedQuery):
    """The mean of n values clamped to declared bounds, n being public."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts over disjoint cells: a person is in one of them."""

    cells: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "cells", check_int(self.cells, "cells", 2))

    def __str__(self) -> str:
        return f"histogram with {self.cells:,} cells"


PlannerQuery: TypeAlias = Count | Proportion | Sum | Mean | Histogram


def count_cells(query: PlannerQuery) -> int:
    """How many answers one question has."""
    return query.cells if isinstance(query, Histogram) else 1


def is_real(query: PlannerQuery) -> bool:
    """Whether the totals are reals, on a grid, or whole numbers."""
    return isinstance(query, Sum | Mean) and not query.whole


def divides_by_n(query: PlannerQuery) -> bool:
    """Whether the answer is a total divided by n."""
    return isinstance(query, Proportion | Mean)


def resolve_neighbours(query: PlannerQuery, neighbours: Neighbours | None) -> Neighbours:
    """Whom the answer may not tell apart: one person comes or goes, unless n is public."""
    if divides_by_n(query):
        if neighbours is Neighbours.ADD_REMOVE:
            units.proportion(1, neighbours)  # says why not
        return Neighbours.REPLACE
    return Neighbours.ADD_REMOVE if neighbours is None else neighbours


def query_sensitivity(query: PlannerQuery, neighbours: Neighbours, queries: int) -> Sensitivity:
    """How far one person moves the totals of so many such questions at once, each of which they may be in.

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
    """What a percentage is relative to, unless a size is given: everybody for a count, the average cell of a histogram, the
    whole for a share (percentage points), the width of the bounds for a mean, everybody at the farther bound for a sum."""
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
    """The same in words."""
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
    """Whether a percentage is of something that grows with n."""
    return isinstance(query, Count | Sum | Histogram)
