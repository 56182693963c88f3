"""Cells: the finest table of a tabulation, of which all its tables are sums, and how far one unit moves each of them.

A tabulation is a set of tables over declared columns that add up. Its cells are all combinations of the declared keys of all
its columns. A margin, which is a set of columns, has a table: the sums of the cells that agree on these columns. Cells are
too many to be listed (10^15 are allowed), so a `KeyProduct` knows how many there are, and an engine returns those that have
rows as `CellBlock`s.

**Contribution bounding happens once, at the cells.** After WHERE and joins, and without the rows that have a key which is
not declared, a unit keeps at most m cells, in the order of a salted hash of itself and the cell, and at most r rows in each.
All tables are sums of the same kept rows. If units were bounded in each table by itself, the tables would be of different
rows: they would not add up, and an estimate that combines them would be wrong.

**Proof** of the sensitivity. Let u be the vector over all cells of what one unit adds: integers, none of them negative, at
most m of them not 0, and none above b, which is r for a count of rows and r·w for the sum of a weight of at most w grid
steps. So the sum of u is at most k = m·b. The unit decides u alone: neither the hash nor the caps look at other units. A
table T is a linear map that sends every cell to one of its own cells, so T u has no negative entry either, and the same sum,
at most k; and at most m entries that are not 0.

    One unit is added or removed: the table changes by T u. Its entries are at most k, their sum is at most k, and so the
    sum of their squares is at most k². All rows of the unit may be in one entry: the bound is reached. A bound of b per
    entry holds for the cells and for no other table, because sums merge cells.

    One unit is replaced: the table changes by T u − T v. No entry of either is negative, so (a − b)² ≤ a² + b² for each
    pair of entries: the squares add up to at most 2k², the absolute values to 2k, and no entry changes by more than k.
    Two units whose rows differ in every column reach 2k² in all tables at once, so the bounds hold for the joint vector of
    all tables with no loss but for the total: that is one number, and changes by at most k. It would not change at all if
    every unit had exactly one row that counts. No bound from above promises that, so it is never assumed.

For the cells themselves, entries of at most b give m·b² and 2m·b².

**Proof** for contrasts. The contrast of a table over columns of two keys each is a linear map D that sends every cell to one
cell of its own with the sign + or −. One unit is added or removed: D u has entries whose absolute values sum to at most Σu ≤
k, so their squares add up to at most k², as for the whole table; all rows of the unit in one cell reach it. One unit is
replaced: D u − D v may have an entry of 2k, where all rows of one unit count as + and those of the other as − in the same
entry. What (a − b)² ≤ a² + b² promised above holds for numbers of one sign alone. The bounds are then those of the triangle
inequality: entries of 2k, absolute values of 2k in all, squares of 4k², all of which this pair reaches: twice the squares of
a whole table.

A count of distinct units is no sum over cells where a unit may be in two of them, so it is refused unless m = 1. Keys that
are not declared are refused too: the list of keys that occur would reveal that a unit has one. NULL is a key like any
other, and only if it is declared; a column that a table sums over is not a key that is NULL.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any, overload

import numpy
from numpy.typing import NDArray

from discreet import formats
from discreet._numbers import nearest_float
from discreet.errors import QueryRefused
from discreet.query import ast
from discreet.query.aggregates import CountRows, CountUnits, Sum
from discreet.query.contribution import (
    ADJUSTED_POLICY_NOTE,
    FIRST_BOUNDING,
    BoundedQuery,
    check_bounded,
    explain_limits,
    explain_outside,
    list_keys,
)
from discreet.query.grid import grid_range_of
from discreet.query.schema import Key, Kind, Table
from discreet.query.statistics import CentredSum, ScalarStatistic
from discreet.query.validate import apply_joins, check_query
from discreet.units import Neighbours, Sensitivity

MAX_COMBINATIONS = 10**15
"""Cells of a tabulation, empty ones included."""

MAX_WEIGHT = 1 << 21
"""The largest weight of a row in grid steps: the sum of 2^41 rows, more than an engine holds, then fits 64 bits."""

AGGREGATES_HINT = "ask for COUNT(*), or for SUM(weight) of a column that is not negative"


@dataclass(frozen=True, slots=True)
class KeyProduct(Sequence[tuple[Key, ...]]):
    """Every combination of the keys of some columns, the last column changing first. No combination is stored.

    >>> cells = KeyProduct((("a", "b"), (1, 2, None)))
    >>> len(cells), cells[4], ("b", None) in cells, cells.index(("b", 2))
    (6, ('b', 2), True, 4)
    """

    columns: tuple[tuple[Key, ...], ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many keys each column has."""
        return tuple(map(len, self.columns))

    def __len__(self) -> int:
        return prod(self.sizes)

    @overload
    def __getitem__(self, index: int) -> tuple[Key, ...]: ...
    @overload
    def __getitem__(self, index: slice) -> list[tuple[Key, ...]]: ...
    def __getitem__(self, index: int | slice) -> tuple[Key, ...] | list[tuple[Key, ...]]:
        places = range(len(self))[index]
        return self._combine(places) if isinstance(places, int) else [self._combine(place) for place in places]

    def _combine(self, place: int) -> tuple[Key, ...]:
        keys = []
        for column in reversed(self.columns):
            place, code = divmod(place, len(column))
            keys.append(column[code])
        return tuple(reversed(keys))

    def __iter__(self) -> Iterator[tuple[Key, ...]]:
        return product(*self.columns)

    def __contains__(self, keys: object) -> bool:
        if not isinstance(keys, tuple) or len(keys) != len(self.columns):
            return False
        return all(key in column for key, column in zip(keys, self.columns, strict=True))

    def index(self, value: Any, start: int = 0, stop: int | None = None) -> int:
        """Return the place of a combination."""
        place = 0
        for key, column in zip(value, self.columns, strict=True):
            place = place * len(column) + column.index(key)
        if place not in range(len(self))[start:stop]:
            raise ValueError(f"{value!r} is not in this part of the product")
        return place


@dataclass(frozen=True, slots=True)
class CellBlock:
    """Some of the cells that have rows: one row of `codes` and one number for each cell.

    `codes[i, j]` is the place of the key of cell i among the keys of column j (`BoundedCells.keys.columns`). A number is
    that of the kept rows, or their sum of weights in grid steps. Private: no noise was added.
    """

    codes: NDArray[numpy.int64]  # (cells, columns)
    counts: NDArray[numpy.int64]  # (cells,)
    units: NDArray[numpy.int64] | None = None  # (cells,): a hash of which units are in each, if it was asked for

    def __len__(self) -> int:
        return len(self.counts)


@dataclass(frozen=True)
class BoundedCells(BoundedQuery):
    """A query for the finest table of a tabulation, bounded once for all tables."""

    keys: KeyProduct
    bounding: int = field(default=FIRST_BOUNDING, kw_only=True)

    @property
    def margins(self) -> tuple[ast.Margin, ...]:
        """The tables that are asked for: those of the query, or the one by all columns."""
        return self.query.margins or (tuple(range(len(self.query.groups))),)

    @property
    def statistic(self) -> ScalarStatistic:
        """What is added up in each cell."""
        [statistic] = self.scalars
        return statistic

    @property
    def weight(self) -> str | None:
        """What is added up, as SQL; None if rows are counted."""
        return ast.format_value(self.statistic.value) if isinstance(self.statistic, CentredSum) else None

    @property
    def step(self) -> Fraction:
        """What one step of the grid is worth: 1 for counts."""
        return self.statistic.step_size(self.table)

    @property
    def max_change(self) -> int:
        """The most that one unit adds to all cells together, in grid steps: k of the proof."""
        return self.max_groups * self.max_contribution(self.statistic)

    def margin_sensitivity(self, margin: ast.Margin) -> Sensitivity:
        """Return the sensitivity of one table in grid steps; the proof is at the head of this file.

        The joint vector of several tables changes by the sum of their squared norms: all may move as far at once.
        """
        if len(margin) == len(self.query.groups):
            return self.sensitivity(self.statistic)
        cells = prod(len(self.keys.columns[i]) for i in margin)
        most, units = self.max_change, self.neighbours.differing_units
        l0 = min(self.max_groups * units, cells)
        if cells == 1:
            return Sensitivity(l0=1, linf=most)
        return Sensitivity(l0=l0, l1=units * most, l2_squared=units * most**2, linf=most)

    def contrast_sensitivity(self, margin: ast.Margin) -> Sensitivity:
        """Return the sensitivity of a contrast by the columns of a margin, over others of two keys; the proof is above too.

        Like tables, contrasts that are measured together change by the sum of their squared norms.
        """
        cells = prod(len(self.keys.columns[i]) for i in margin)
        units = self.neighbours.differing_units
        most = units * self.max_change
        return Sensitivity(l0=min(self.max_groups * units, cells), l1=most, l2_squared=most**2, linf=most)


def bound_cells(query: ast.Query, table: Table, neighbours: Neighbours) -> BoundedCells:
    """Decide what is counted in each cell of a tabulation, and prove what one unit can do to all its tables.

    The query has one aggregate, and groups by the columns of the tabulation, whose keys are declared or given.

    Raises:
        QueryRefused: tables of this query would not add up, or would reveal which keys occur.
    """
    table = apply_joins(query.joins, table)
    check_query(query, table)
    if query.view != ast.WHOLE_ANSWER:
        raise QueryRefused(
            "HAVING, ORDER BY, LIMIT and OFFSET are of one table, and a tabulation has several",
            "leave them out, and filter the tables that you get",
        )
    keys = KeyProduct(_list_declared_keys(query, table))
    if prod(keys.sizes) > MAX_COMBINATIONS:
        raise QueryRefused(
            f"There are more than {MAX_COMBINATIONS:,} combinations of keys", "tabulate fewer columns, or coarser keys"
        )
    groups = 1 if not query.groups or table.unique else min(table.max_groups, len(keys))
    _check_aggregate(query, table, groups)
    bounded = BoundedCells(query, table, neighbours, groups, 1 if table.unique else table.max_rows, keys)
    check_bounded(bounded)
    return bounded


def _list_declared_keys(query: ast.Query, table: Table) -> tuple[tuple[Key, ...], ...]:
    columns = []
    for group, keys in zip(query.groups, list_keys(query, table), strict=True):
        if keys is None:
            hint = f"declare them: keys={{{group.name!r}: [...]}}"
            if isinstance(group.value, ast.Ref) and _is_bounded_integer(table, group.value.column):
                hint += f"; or take a computed column, {group.value.column} // 1, whose keys follow from the bounds"
            raise QueryRefused(
                f"The keys of `{group.name}` are not declared, and tables show all of them, also empty ones", hint
            )
        columns.append(keys)
    return tuple(columns)


def _is_bounded_integer(table: Table, name: str) -> bool:
    column = table.columns[name]
    return column.kind is Kind.INTEGER and column.number_bounds is not None


def _check_aggregate(query: ast.Query, table: Table, max_groups: int) -> None:
    """Refuse what is no sum of non-negative numbers over cells."""
    if len(query.aggregates) > 1:
        raise QueryRefused(f"A tabulation counts one thing, and this query has {len(query.aggregates)} aggregates",
                           AGGREGATES_HINT)  # fmt: skip
    [(_, aggregate)] = query.aggregates
    match aggregate:
        case CountRows():
            return
        case CountUnits() if max_groups == 1:
            return
        case CountUnits():
            raise QueryRefused(
                f"Counts of distinct {table.unit} do not add up where one may be in {max_groups} cells",
                "ask for COUNT(*), or declare max_groups = 1",
            )
        case Sum(value=value):
            steps = grid_range_of(value, table)
            if steps.lower < 0:
                raise QueryRefused(
                    f"The weight {ast.format_value(value)} may be negative", "declare bounds of it that begin at 0 or above"
                )
            if steps.upper > MAX_WEIGHT:
                raise QueryRefused(
                    f"The weight {ast.format_value(value)} may be {steps.upper:,} steps of its grid",
                    f"declare an upper bound of at most {MAX_WEIGHT:,} steps, or measure it in a larger unit",
                )
        case _:
            raise QueryRefused(f"Tables of {aggregate.to_sql(table.unit)} do not add up", AGGREGATES_HINT)


def describe_total(weight: str | None) -> str:
    """What the cells of a table hold before noise, in words: counts, or sums of a weight."""
    return "the count of the rows that are kept" if weight is None else f"the sum of {weight} over the rows that are kept"


def explain_weight(weight: str | None, step: Fraction) -> list[str]:
    """Say what is not in the error of tables that add up a weight on a grid of this step; nothing of counts."""
    if weight is None:
        return []
    return [
        f"Values of {weight} are clipped to their declared bounds and rounded to multiples of {nearest_float(step):.6g}. "
        "`sd` and the intervals are of the noise alone: if these are weights of a survey, the error of sampling is not in "
        "them."
    ]


def explain_change(unit: str, neighbours: Neighbours, most: int, weight: str | None, step: Fraction) -> str:
    """Say in words what one unit can change in every table: at most so many steps of the grid in all."""
    rows = formats.count_things(most, "row") if weight is None else f"{most * nearest_float(step):,.6g} in {weight}"
    if neighbours is Neighbours.ADD_REMOVE:
        return f"Adding or removing one {unit} changes each table by at most {rows} in all."
    return f"Replacing one {unit} takes at most {rows} from each table, and adds at most as much."


def explain_cell_limits(unit: str, max_groups: int, max_rows: int, *, unique: bool) -> str:
    """Say how contributions are bounded before anything is added up, or why they are not."""
    cells, rows = formats.count_things(max_groups, "cell"), formats.count_things(max_rows, "row")
    limits = f"Limits, applied once for all tables: {cells} per {unit}, {rows} in each."
    return explain_limits(unit, limits, unique=unique)


DECLARED_ALONE = "A row with a key that is not declared, in any column of the tables, counts in no table."
"""What readers who add up tables must know: the total is of the rows whose keys are all declared."""


def explain_cells(bounded: BoundedCells) -> str:
    """Say in words what one unit can change in every table, repeat the limits, and say which rows are left out."""
    table = bounded.table
    parts = [
        explain_change(table.unit, bounded.neighbours, bounded.max_change, bounded.weight, bounded.step),
        explain_cell_limits(table.unit, bounded.max_groups, bounded.max_rows, unique=table.unique),
    ]
    parts += [outside] if (outside := explain_outside(bounded)) else []
    parts += [DECLARED_ALONE] if bounded.query.groups else []
    return " ".join([*parts, *([ADJUSTED_POLICY_NOTE] if table.adjusted_after_looking else [])])
