"""The exact whole numbers that an answer is made of.

Which of them an aggregate needs is decided here; how far one unit can move them is said in `bound`.
"""

from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from math import prod
from operator import mul
from typing import TypeAlias, assert_never

from discreet.query import plan
from discreet.query.span import Span, span_of
from discreet.query.table import Table


@dataclass(frozen=True, slots=True)
class Rows:
    """How many rows, at most r per unit and group."""


@dataclass(frozen=True, slots=True)
class Units:
    """How many distinct units."""


@dataclass(frozen=True, slots=True)
class Values:
    """How many rows where the value is not missing, at most r per unit and group."""

    value: plan.Value


@dataclass(frozen=True, slots=True)
class Total:
    """The sum of (value − centre)^power, in grid steps, over the same rows that `Values` counts."""

    value: plan.Value
    centre: int
    power: int = 1


@dataclass(frozen=True, slots=True)
class Counts:
    """How many rows fall into each cell, at most r per unit and group; and, above the cells, into each node of a tree.

    `cell` is the number of a row's cell, from `first` on, or missing. `fans` says how many children a node has, from the
    root down: (512,) is a plain histogram, (8, 8, 8) has the same cells with two levels of sums above them.
    """

    cell: plan.Value
    first: int
    fans: tuple[int, ...]

    @property
    def cells(self) -> int:
        """The number of leaves."""
        return prod(self.fans)

    @property
    def nodes(self) -> int:
        """The number of counts that get noise: all levels, without the root."""
        return sum(accumulate(self.fans, mul))


Scalar: TypeAlias = Rows | Units | Values | Total
Measure: TypeAlias = Scalar | Counts


def measures_of(aggregate: plan.Aggregate, table: Table) -> tuple[Measure, ...]:
    """The exact totals from which an aggregate is computed."""
    match aggregate:
        case plan.CountRows():
            return (Rows(),)
        case plan.CountUnits():
            return (Units(),)
        case plan.CountValues(value=value):
            return (Values(value),)
        case plan.Sum(value=value):
            return (Total(value, 0),)
        case plan.Mean(value=value):
            return (Total(value, centre_of(value, table)), Values(value))
        case plan.Variance(value=value):
            middle = centre_of(value, table)
            return (Total(value, middle), Total(value, middle, 2), Values(value))
        case plan.Quantile(value=value):
            return (tree_of(value, table),)
        case plan.Histogram(value=value, edges=edges):
            return (histogram_of(value, edges),)
        case _:
            assert_never(aggregate)


FANS = (8, 8, 8)
"""512 cells in three levels: each level costs, each sibling adds noise, and eights balance the two for sums of both kinds
of noise (docs/decisions/0003)."""


def tree_of(value: plan.Value, table: Table) -> Counts:
    """Counts over the whole range of a value, in up to 512 cells of equal width: all of its quantiles are read off them."""
    span = span_of(value, table)
    steps = span.upper - span.lower + 1
    fans = (max(2, steps),) if steps <= 2 * FANS[0] else FANS[:2] if steps <= FANS[0] * FANS[1] else FANS
    cells = prod(fans)
    width = (
        1 if steps <= cells else -(-steps // (cells - 1))
    )  # bins begin at multiples of the width: the range may touch one more
    return Counts(plan.Bin(value, width * span.grid), span.lower // width, fans)


def width_of(tree: Counts, span: Span) -> int:
    """How many grid steps a cell of `tree_of` is wide."""
    assert isinstance(tree.cell, plan.Bin)
    return int(tree.cell.width / span.grid)


def histogram_of(value: plan.Value, edges: tuple[Fraction, ...]) -> Counts:
    """[e₀, e₁), [e₁, e₂), …, the last one closed. A row outside has no cell."""
    last = len(edges) - 2
    below = [plan.Order.LESS] * last + [plan.Order.AT_MOST]
    branches = tuple(
        (plan.Compare(order, value, plan.Number(edge)), plan.Number(Fraction(i)))
        for i, (order, edge) in enumerate(zip(below, edges[1:], strict=True))
    )
    inside = plan.Compare(plan.Order.AT_LEAST, value, plan.Number(edges[0]))
    return Counts(plan.Case(((inside, plan.Case(branches, None)),), None), 0, (last + 1,))


def centre_of(value: plan.Value, table: Table) -> int:
    """The middle of the range, in steps: sums of distances from it are about half as sensitive."""
    span = span_of(value, table)
    return (span.lower + span.upper) // 2


def in_words(measure: Measure) -> str:
    """A total, in words. Measurement hashes hold these texts: they never change."""
    match measure:
        case Rows():
            return "rows"
        case Units():
            return "units"
        case Values():
            return "values"
        case Total(power=1, centre=0):
            return "sum"
        case Total(power=1):
            return "centred sum"
        case Total():
            return "centred squares"
        case Counts(fans=fans):
            return f"{measure.cells} cells" if len(fans) == 1 else f"{measure.cells} cells and their sums"
        case _:
            assert_never(measure)
