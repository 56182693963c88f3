"""How much one person can change the exact totals behind a question.

Within a group, a unit with c > r rows counts as r rows: its count is r and its sum s becomes s·r/c, truncated, so that
sum and count come from the same (virtual) rows and an average stays unbiased. A unit keeps at most m groups, in the
order of a salted hash of itself and the group, which depends on no other unit. So adding or removing one unit moves at
most m groups, each total there by at most r·(largest |value|), or r for a count, or 1 for distinct units, and nothing
else.
"""

from dataclasses import dataclass
from itertools import product
from typing import assert_never

from discreet.errors import QueryRefused
from discreet.query import ast
from discreet.query.grid import MAX_PRODUCT, GridRange, grid_range_of
from discreet.query.schema import Key, Kind, Table, accepts
from discreet.query.statistics import (
    CellCounts,
    CentredSum,
    RowCount,
    ScalarStatistic,
    Statistic,
    UnitCount,
    ValueCount,
    statistics_of,
)
from discreet.query.validate import apply_joins, check_query, check_statistics
from discreet.units import Neighbours, Sensitivity

MAX_KEYS = 1_000_000
MAX_CELL_COUNTS = 100_000_000
MAX_SQUARE_EXPONENT = 400  # steps of 2^400, of which there are fewer than 2^51: their squares stay below 2^1000


@dataclass(frozen=True, slots=True)
class BoundedQuery:
    """A question with the exact integers it needs and how far one unit can move each."""

    query: ast.Query
    table: Table
    neighbours: Neighbours
    statistics: tuple[Statistic, ...]
    max_groups: int  # at most this many groups per unit
    max_rows: int  # at most this many rows per unit and group
    keys: tuple[tuple[Key, ...], ...] | None  # None: unknown keys

    @property
    def scalars(self) -> tuple[ScalarStatistic, ...]:
        """The measures that are one number per group."""
        return tuple(measure for measure in self.statistics if not isinstance(measure, CellCounts))

    @property
    def cell_counts(self) -> tuple[CellCounts, ...]:
        """The measures that are many counts per group."""
        return tuple(measure for measure in self.statistics if isinstance(measure, CellCounts))

    @property
    def totals(self) -> tuple[ScalarStatistic, ...]:
        """What the engine adds up per group: the scalars, and the distinct units where keys must be selected by them."""
        return (*self.scalars, UnitCount()) if self.keys is None else self.scalars

    def sensitivity(self, statistic: Statistic) -> Sensitivity:
        """In grid steps. A replaced unit takes its contributions away and brings others: the same groups may then move by
        the whole range of a signed sum, or twice as many groups by one contribution each.

        Where contributions have one sign, as counts, squares and sums of values on one side of their centre do, a group
        moves by the difference of two numbers between 0 and the largest, so by at most the largest; and no more groups
        move than there are. One count over everybody so moves by one contribution, not by two.
        """
        most = self.max_contribution(statistic)
        if isinstance(statistic, CellCounts):
            # Each of a unit's r rows in a group is in one node of every level. So a level of a group moves by a vector of
            # counts with sum r: squares add up to at most r², when all rows share a node. For a replaced unit the
            # difference of two such vectors, both non-negative, has at most the squares of both.
            levels = self.max_groups * len(statistic.branching) * self.neighbours.differing_units
            cells = min(most, statistic.cells)
            return Sensitivity(l0=levels * cells, l1=levels * most, l2_squared=levels * most**2, linf=most)
        changed = self.changed_groups
        if self.neighbours is Neighbours.ADD_REMOVE:
            return Sensitivity(l0=changed, linf=most)
        if self._has_both_signs(statistic):
            return Sensitivity(
                l0=changed, l1=2 * self.max_groups * most, l2_squared=4 * self.max_groups * most**2, linf=2 * most
            )
        return Sensitivity(l0=changed, linf=most)

    @property
    def changed_groups(self) -> int:
        """In how many groups two neighbouring tables may differ: a replaced unit leaves its groups and joins others."""
        most = self.max_groups * self.neighbours.differing_units
        return most if self.keys is None else min(most, len(self.keys))

    def _has_both_signs(self, statistic: ScalarStatistic) -> bool:
        """Whether two units' contributions to a group may have different signs."""
        if not isinstance(statistic, CentredSum) or statistic.power == 2:
            return False
        span = self.grid_range(statistic)
        return span.lower < statistic.centre < span.upper

    def max_contribution(self, statistic: Statistic) -> int:
        """The most that one unit adds to one group."""
        match statistic:
            case RowCount() | ValueCount() | CellCounts():
                return self.max_rows
            case UnitCount():
                return 1
            case CentredSum(value=value, centre=centre, power=power):
                span = grid_range_of(value, self.table)
                most = max(abs(span.lower - centre), abs(span.upper - centre), 1)
                return self.max_rows * (most if power == 1 else most * most)
            case _:
                assert_never(statistic)

    def grid_range(self, statistic: CentredSum) -> GridRange:
        """The grid of a sum."""
        return grid_range_of(statistic.value, self.table)


def bound_contributions(query: ast.Query, table: Table, neighbours: Neighbours) -> BoundedQuery:
    """Decide what is computed exactly, and prove what one unit can do to it."""
    table = apply_joins(query.joins, table)
    check_query(query, table)
    keys = known_keys(query, table)
    single = not query.groups
    groups = 1 if single or table.unique else table.max_groups
    if keys is not None:
        groups = min(groups, len(keys))
    measures: dict[Statistic, None] = {}
    for _, aggregate in query.aggregates:
        measures |= dict.fromkeys(statistics_of(aggregate, table))
    check_statistics((aggregate for _, aggregate in query.aggregates), len(measures))
    bounded = BoundedQuery(query, table, neighbours, tuple(measures), groups, 1 if table.unique else table.max_rows, keys)
    counts = sum(measure.nodes for measure in bounded.cell_counts)
    if keys is not None and len(keys) * counts > MAX_CELL_COUNTS:
        raise QueryRefused(f"this needs {len(keys) * counts:,} counts", "ask for fewer keys, or for fewer histograms")
    for measure in measures:
        if (
            isinstance(measure, CentredSum)
            and measure.power == 2
            and bounded.grid_range(measure).exponent > MAX_SQUARE_EXPONENT
        ):
            raise QueryRefused("squares of these values leave what doubles can hold", "measure them in another unit")
        if bounded.max_contribution(measure) >= MAX_PRODUCT:
            raise QueryRefused("one unit can add more than 2^62 grid steps", "declare tighter bounds or fewer rows")
    return bounded


def known_keys(query: ast.Query, table: Table) -> tuple[tuple[Key, ...], ...] | None:
    """Every combination of the keys that everybody knows; None if some column's keys are unknown."""
    choices: list[tuple[Key, ...]] = []
    for group in query.groups:
        kind = table.columns[group.value.column].kind if isinstance(group.value, ast.Ref) else Kind.INTEGER
        if any(key is not None and not accepts(kind, key) for key in group.keys or ()):
            raise QueryRefused(f"a key of {group.name} is not a {kind.value}", "list keys of the column's own kind")
        found = grouping_keys(group, table)
        if found is not None:
            choices.append(found)
    if len(choices) < len(query.groups):
        return None
    combinations = 1
    for choice in choices:
        combinations *= len(choice)
    if combinations > MAX_KEYS:
        raise QueryRefused(f"there are more than {MAX_KEYS:,} combinations of keys", "group by fewer columns")
    return tuple(product(*choices))


def grouping_keys(group: ast.Grouping, table: Table) -> tuple[Key, ...] | None:
    """The keys of one grouping that may be shown: given, or declared; None if they are unknown."""
    return group.keys or _declared_keys(group.value, table)


def _declared_keys(value: ast.Ref | ast.Bin, table: Table) -> tuple[Key, ...] | None:
    if isinstance(value, ast.Bin):
        span = grid_range_of(value, table)
        return tuple(range(span.lower, span.upper + 1)) if span.upper - span.lower < MAX_KEYS else None
    column = table.columns[value.column]
    if column.kind is Kind.REAL:
        raise QueryRefused(f"{value.column} holds reals, which are no keys", f"bin them: {value.column} // 10")
    return (False, True) if column.kind is Kind.BOOLEAN and column.keys is None else column.keys
