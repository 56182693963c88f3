"""The exact whole numbers that an answer is made of.

Which of them an aggregate needs is decided here; how far one unit can move them is said in `bound`.
"""

from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from math import prod
from operator import mul
from typing import TypeAlias, assert_never

from discreet.query import ast
from discreet.query.grid import GridRange, grid_range_of
from discreet.query.schema import Table


@dataclass(frozen=True, slots=True)
class RowCount:
    """How many rows, at most r per unit and group."""


@dataclass(frozen=True, slots=True)
class UnitCount:
    """How many distinct units."""


@dataclass(frozen=True, slots=True)
class ValueCount:
    """How many rows where the value is not missing, at most r per unit and group."""

    value: ast.Value


@dataclass(frozen=True, slots=True)
class CentredSum:
    """The sum of (value − centre)^power, in grid steps, over the same rows that `Values` counts."""

    value: ast.Value
    centre: int
    power: int = 1


@dataclass(frozen=True, slots=True)
class CellCounts:
    """How many rows fall into each cell, at most r per unit and group; and, above the cells, into each node of a tree.

    `cell` is the number of a row's cell, from `first` on, or missing. `fans` says how many children a node has, from the
    root down: (512,) is a plain histogram, (8, 8, 8) has the same cells with two levels of sums above them.
    """

    cell: ast.Value
    first_cell: int
    branching: tuple[int, ...]

    @property
    def cells(self) -> int:
        """The number of leaves."""
        return prod(self.branching)

    @property
    def nodes(self) -> int:
        """The number of counts that get noise: all levels, without the root."""
        return sum(accumulate(self.branching, mul))


ScalarStatistic: TypeAlias = RowCount | UnitCount | ValueCount | CentredSum
Statistic: TypeAlias = ScalarStatistic | CellCounts


def statistics_of(aggregate: ast.Aggregate, table: Table) -> tuple[Statistic, ...]:
    """The exact totals from which an aggregate is computed."""
    match aggregate:
        case ast.CountRows():
            return (RowCount(),)
        case ast.CountUnits():
            return (UnitCount(),)
        case ast.CountValues(value=value):
            return (ValueCount(value),)
        case ast.Sum(value=value):
            return (CentredSum(value, 0),)
        case ast.Mean(value=value):
            return (CentredSum(value, midpoint_of(value, table)), ValueCount(value))
        case ast.Variance(value=value):
            middle = midpoint_of(value, table)
            return (CentredSum(value, middle), CentredSum(value, middle, 2), ValueCount(value))
        case ast.Quantile(value=value):
            return (build_quantile_tree(value, table),)
        case ast.Histogram(value=value, edges=edges):
            return (build_histogram(value, edges),)
        case _:
            assert_never(aggregate)


TREE_BRANCHING = (8, 8, 8)
"""512 cells in three levels: each level costs, each sibling adds noise, and eights balance the two for sums of both kinds
of noise (docs/decisions/0003)."""


def build_quantile_tree(value: ast.Value, table: Table) -> CellCounts:
    """Counts over the whole range of a value, in up to 512 cells of equal width: all of its quantiles are read off them."""
    span = grid_range_of(value, table)
    steps = span.upper - span.lower + 1
    fans = (
        (max(2, steps),)
        if steps <= 2 * TREE_BRANCHING[0]
        else TREE_BRANCHING[:2]
        if steps <= TREE_BRANCHING[0] * TREE_BRANCHING[1]
        else TREE_BRANCHING
    )
    cells = prod(fans)
    width = (
        1 if steps <= cells else -(-steps // (cells - 1))
    )  # bins begin at multiples of the width: the range may touch one more
    return CellCounts(ast.Bin(value, width * span.grid), span.lower // width, fans)


def cell_width_of(tree: CellCounts, grid_range: GridRange) -> int:
    """How many grid steps a cell of `build_quantile_tree` is wide."""
    assert isinstance(tree.cell, ast.Bin)
    return int(tree.cell.width / grid_range.grid)


def build_histogram(value: ast.Value, edges: tuple[Fraction, ...]) -> CellCounts:
    """[e₀, e₁), [e₁, e₂), …, the last one closed. A row outside has no cell."""
    last = len(edges) - 2
    below = [ast.Order.LESS] * last + [ast.Order.AT_MOST]
    branches = tuple(
        (ast.Compare(order, value, ast.Number(edge)), ast.Number(Fraction(i)))
        for i, (order, edge) in enumerate(zip(below, edges[1:], strict=True))
    )
    inside = ast.Compare(ast.Order.AT_LEAST, value, ast.Number(edges[0]))
    return CellCounts(ast.Case(((inside, ast.Case(branches, None)),), None), 0, (last + 1,))


def midpoint_of(value: ast.Value, table: Table) -> int:
    """The middle of the range, in steps: sums of distances from it are about half as sensitive."""
    span = grid_range_of(value, table)
    return (span.lower + span.upper) // 2


def statistic_name(statistic: Statistic) -> str:
    """A total, in words. Measurement hashes hold these texts: they never change."""
    match statistic:
        case RowCount():
            return "rows"
        case UnitCount():
            return "units"
        case ValueCount():
            return "values"
        case CentredSum(power=1, centre=0):
            return "sum"
        case CentredSum(power=1):
            return "centred sum"
        case CentredSum():
            return "centred squares"
        case CellCounts(branching=fans):
            return f"{statistic.cells} cells" if len(fans) == 1 else f"{statistic.cells} cells and their sums"
        case _:
            assert_never(statistic)
