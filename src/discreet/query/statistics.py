"""Statistics: the exact integers that an engine computes per group, and that noise is added to.

Each statistic knows the most that one unit adds to it in one group. In how many groups that can happen, and so the
sensitivity, is the subject of `contribution`.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from math import prod
from operator import mul
from typing import ClassVar, Literal, TypeAlias

from discreet.query import ast
from discreet.query.grid import GridRange, grid_range_of
from discreet.query.schema import Table


class _Statistic(ABC):
    """What every statistic says of itself; the answers here are those of a count of rows."""

    __slots__ = ()
    adds_up_over_units: ClassVar[bool] = True
    """Whether its totals over disjoint sets of units add up to the total over all of them."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The text that stands for it in measurement hashes: it never changes."""

    def max_contribution(self, max_rows: int, table: Table) -> int:
        """Return the most that one unit adds to one group."""
        return max_rows

    def has_both_signs(self, table: Table) -> bool:
        """Return whether two units' contributions to a group may have different signs."""
        return False

    def step_size(self, table: Table) -> Fraction:
        """Return what 1 of it is in the unit of the column."""
        return Fraction(1)


@dataclass(frozen=True, slots=True)
class RowCount(_Statistic):
    """The number of rows, at most `max_rows` per unit and group."""

    @property
    def name(self) -> str:
        return "rows"


@dataclass(frozen=True, slots=True)
class UnitCount(_Statistic):
    """The number of distinct units."""

    @property
    def name(self) -> str:
        return "units"

    def max_contribution(self, max_rows: int, table: Table) -> int:
        """Return 1: a unit counts once, however many rows it has."""
        return 1


@dataclass(frozen=True, slots=True)
class ValueCount(_Statistic):
    """The number of rows where the value is not NULL, at most `max_rows` per unit and group."""

    value: ast.Value

    @property
    def name(self) -> str:
        return "values"


@dataclass(frozen=True, slots=True)
class DistinctCount(_Statistic):
    """The number of distinct values that are not NULL, of which at most `max_rows` per unit and group count.

    The values that count of a unit are the first in the order of a salted hash of unit, group and value, so they depend on
    no other unit's rows.

    **Proof** that one unit moves it by at most r = `max_rows` per group. Let A be the values that the other units bring to a
    group, and X, with |X| ≤ r, those of the unit. Adding or removing the unit moves the count by |A ∪ X| − |A|, which is
    between 0 and r. Replacing X by Y moves it by (|A ∪ Y| − |A|) − (|A ∪ X| − |A|), a difference of two such numbers.
    """

    value: ast.GroupValue
    adds_up_over_units: ClassVar[bool] = False  # two units may bring the same value

    @property
    def name(self) -> str:
        return "distinct values"


@dataclass(frozen=True, slots=True)
class CentredSum(_Statistic):
    """The sum of (value − centre)^power, in grid steps, over the same rows that `ValueCount` counts."""

    value: ast.Value
    centre: int
    power: Literal[1, 2] = 1

    @property
    def name(self) -> str:
        if self.power == 2:
            return "centred squares"
        return "centred sum" if self.centre else "sum"

    def max_contribution(self, max_rows: int, table: Table) -> int:
        """Return `max_rows` times the largest power of a distance from the centre."""
        grid_range = grid_range_of(self.value, table)
        farthest = max(abs(grid_range.lower - self.centre), abs(grid_range.upper - self.centre), 1)
        return int(max_rows * farthest**self.power)

    def has_both_signs(self, table: Table) -> bool:
        """Return whether the values lie on both sides of the centre; squares never do."""
        grid_range = grid_range_of(self.value, table)
        return self.power == 1 and grid_range.lower < self.centre < grid_range.upper

    def step_size(self, table: Table) -> Fraction:
        """Return a grid step of the value, squared for squares."""
        return Fraction(grid_range_of(self.value, table).grid ** self.power)


@dataclass(frozen=True, slots=True)
class CentredProduct(_Statistic):
    """The sum of (left − left_centre)·(right − right_centre), in products of grid steps.

    Both values are NULL in the same rows (`pair_values`), so it runs over the rows that `ValueCount` of either counts. A
    unit's sum over c > r rows is scaled by r/c, as that of `CentredSum` is.
    """

    left: ast.Value
    right: ast.Value
    left_centre: int
    right_centre: int

    @property
    def name(self) -> str:
        return "centred products"

    def max_contribution(self, max_rows: int, table: Table) -> int:
        """Return `max_rows` times the largest product of two distances from the centres."""
        return int(max_rows * max(1, *(abs(product) for product in self._corners(table))))

    def has_both_signs(self, table: Table) -> bool:
        """Return whether one product can be negative and another positive."""
        corners = self._corners(table)
        return min(corners) < 0 < max(corners)

    def step_size(self, table: Table) -> Fraction:
        """Return the product of a grid step of either value."""
        return grid_range_of(self.left, table).grid * grid_range_of(self.right, table).grid

    def _corners(self, table: Table) -> list[int]:
        """Return the products at the corners of the two ranges, where a product of two numbers is largest and least."""
        sides = ((self.left, self.left_centre), (self.right, self.right_centre))
        ranges = [(grid_range_of(value, table), centre) for value, centre in sides]
        ends = [(each.lower - centre, each.upper - centre) for each, centre in ranges]
        return [x * y for x in ends[0] for y in ends[1]]


@dataclass(frozen=True, slots=True)
class CellCounts(_Statistic):
    """The number of rows in each cell, at most `max_rows` per unit and group, and in each node of a tree above the cells.

    `cell` is the number of a row's cell, from `first_cell` on, or NULL. `branching` says how many children a node has, from
    the root down: (512,) is a plain histogram, (8, 8, 8) has the same cells with two levels of sums above them.
    """

    cell: ast.Value
    first_cell: int
    branching: tuple[int, ...]

    @property
    def name(self) -> str:
        return f"{self.cells} cells" if len(self.branching) == 1 else f"{self.cells} cells and their sums"

    @property
    def cells(self) -> int:
        """The number of leaves."""
        return prod(self.branching)

    @property
    def nodes(self) -> int:
        """The number of counts that get noise: all levels, without the root."""
        return sum(accumulate(self.branching, mul))


ScalarStatistic: TypeAlias = RowCount | UnitCount | ValueCount | DistinctCount | CentredSum | CentredProduct
Statistic: TypeAlias = ScalarStatistic | CellCounts


TREE_BRANCHING = (8, 8, 8)
"""512 cells in three levels: each level costs, each sibling adds noise, and eights balance the two for sums of both kinds
of noise (docs/decisions/0003)."""


def build_quantile_tree(value: ast.Value, table: Table) -> CellCounts:
    """Return counts over the whole range of a value, in up to 512 cells of equal width: every quantile is read off them."""
    grid_range = grid_range_of(value, table)
    steps = grid_range.upper - grid_range.lower + 1
    if steps <= 2 * TREE_BRANCHING[0]:
        branching: tuple[int, ...] = (max(2, steps),)
    else:
        branching = TREE_BRANCHING[:2] if steps <= TREE_BRANCHING[0] * TREE_BRANCHING[1] else TREE_BRANCHING
    cells = prod(branching)
    # cells begin at multiples of their width, so the range may touch one more
    width = 1 if steps <= cells else -(-steps // (cells - 1))
    return CellCounts(ast.Bin(value, width * grid_range.grid), grid_range.lower // width, branching)


def cell_width_of(tree: CellCounts, grid_range: GridRange) -> int:
    """Return how many grid steps wide a cell of `build_quantile_tree` is."""
    assert isinstance(tree.cell, ast.Bin)
    return int(tree.cell.width / grid_range.grid)


def build_histogram(value: ast.Value, edges: tuple[Fraction, ...]) -> CellCounts:
    """Return the counts of [e₀, e₁), [e₁, e₂), …, the last one closed. A row outside has no cell."""
    last = len(edges) - 2
    below = [ast.Order.LESS] * last + [ast.Order.AT_MOST]
    branches = tuple(
        (ast.Compare(order, value, ast.Number(edge)), ast.Number(Fraction(i)))
        for i, (order, edge) in enumerate(zip(below, edges[1:], strict=True))
    )
    inside = ast.Compare(ast.Order.AT_LEAST, value, ast.Number(edges[0]))
    return CellCounts(ast.Case(((inside, ast.Case(branches, None)),), None), 0, (last + 1,))


def pair_values(left: ast.Value, right: ast.Value) -> tuple[ast.Value, ast.Value]:
    """Return two values that are NULL wherever one of them is: a pair counts where it is complete."""
    return _where_present(left, right), _where_present(right, left)


def _where_present(value: ast.Value, other: ast.Value) -> ast.Value:
    """Return a value that is NULL also where the other is."""
    if isinstance(other, ast.Number):
        return value
    return ast.Case(((ast.Not(ast.Missing(other)), value),), None)


def midpoint_of(value: ast.Value, table: Table) -> int:
    """Return the middle of a value's range, in steps: sums of distances from it are about half as sensitive."""
    grid_range = grid_range_of(value, table)
    return (grid_range.lower + grid_range.upper) // 2
