"""Contribution bounding: how much one unit can change the exact statistics behind a query, and so their sensitivity.

Within a group, a unit with c > r rows counts as r rows: its count is r and its sum s becomes s·r/c, truncated, so that sum
and count come from the same (virtual) rows and an average stays unbiased. A unit keeps at most m groups, in the order of a
salted hash of itself and the group, which depends on no other unit.

**Proof** of the sensitivity. Adding or removing one unit moves at most m groups, each statistic there by at most the most
that one unit adds to one group (`max_contribution`: r for a count of rows or of distinct values, 1 for distinct units,
r·(largest |value|) for a sum, r·(largest |x|·|y|) for a sum of products of two distances x and y, which is reached at a
corner of their ranges), and nothing else. A replaced unit takes its contributions away and brings others: the same
groups may then move by the whole range of a signed sum, or twice as many groups by one contribution each. Where
contributions have one sign, as counts, squares and sums of values on one side of their centre do, a group moves by the
difference of two numbers between 0 and the largest, so by at most the largest; and no more groups move than there are. One
count over all rows so moves by one contribution, not by two.

The proof needs that a unit's rows are found together, so that what identifies a unit must differ between units; of several
columns it is an injective text of all of them (`sql/dialects.py: encode_tuple`). Where each row is a unit, adding or
removing a unit adds or removes one row, so m = r = 1 without any bounding; a join to a public table keeps it one row.

Of cell counts, each of a unit's r rows in a group is in one node of every level. So a level of a group moves by a vector of
counts with sum r: squares add up to at most r², when all rows share a node. For a replaced unit the difference of two such
vectors, both non-negative, has at most the squares of both.

What is said of it in words follows from the query and the declarations, which are public. How many values lie outside of
the bounds is private.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice, product
from typing import Any

from discreet import formats
from discreet._numbers import nearest_float
from discreet.errors import QueryRefused
from discreet.query import ast
from discreet.query.aggregates import Histogram, Quantile
from discreet.query.ast import format_value
from discreet.query.estimates import AnswerColumn
from discreet.query.grid import (
    MAX_PRODUCT,
    MAX_QUOTED,
    GridRange,
    columns_in,
    grid_range_of,
    list_conjuncts,
    list_periods,
    narrow_periods,
)
from discreet.query.postprocess import check_view
from discreet.query.schema import ROW_UNIT_NOTE, Key, Kind, Table, accepts, parse_unit
from discreet.query.statistics import (
    CellCounts,
    CentredProduct,
    CentredSum,
    DistinctCount,
    ScalarStatistic,
    Statistic,
    UnitCount,
)
from discreet.query.validate import apply_joins, check_query, kind_of
from discreet.units import Neighbours, Sensitivity

FIRST_BOUNDING, BOUNDING = 1, 2
"""Versions of the order in which a unit's contributions are kept: of md5 of salt, unit and group; and of integers
(`sql/order.py`). An answer that was paid for under an earlier version is continued and found under it."""

MAX_KEYS = 1_000_000
MAX_CELL_COUNTS = 100_000_000
MAX_SQUARED_STEP = 1 << 800  # steps of 2^400, of which there are fewer than 2^51: their squares stay below 2^1000

MAX_STATISTICS = 300
MAX_SEARCHED_STATISTICS = 24
TABULATE_HINT = "use discreet.tabulate(session, …) or `discreet tabulate … --sql`, or ask one query for each grouping"
STATISTICS_PER_QUANTILE = 6
STATISTICS_PER_DISTINCT = 10
"""A quote is free, so its work must be bounded. A quantile's error is that of a weighted sum of noises, which takes as long
to compute as that of six statistics; a distinct count adds steps of its own to the engine's statement; and where an error is
given instead of an ε, a search calibrates the query several times."""


@dataclass(frozen=True)
class BoundedQuery:
    """A query with the exact statistics it needs, and how far one unit can move each: all of it computed once."""

    query: ast.Query
    table: Table
    neighbours: Neighbours
    max_groups: int  # at most this many groups per unit
    max_rows: int  # at most this many rows per unit and group
    keys: Sequence[tuple[Key, ...]] | None  # None: not declared
    bounding: int = field(default=BOUNDING, kw_only=True)  # the version of the order in which contributions are kept
    statistics_by_column: tuple[tuple[Statistic, ...], ...] = field(init=False)  # of each aggregate, in order
    statistics: tuple[Statistic, ...] = field(init=False)  # of all columns, each once
    scalars: tuple[ScalarStatistic, ...] = field(init=False)  # those that are one number per group
    cell_counts: tuple[CellCounts, ...] = field(init=False)  # those that are many counts per group
    totals: tuple[ScalarStatistic, ...] = field(init=False)
    """What the engine adds up per group: the scalars, and the distinct units where keys are selected by them."""
    changed_groups: int = field(init=False)
    """In how many groups two neighbouring tables may differ: a replaced unit leaves its groups and joins others."""

    def __post_init__(self) -> None:
        by_column = tuple(aggregate.statistics(self.table) for _, aggregate in self.query.aggregates)
        statistics = tuple(dict.fromkeys(statistic for column in by_column for statistic in column))
        scalars = tuple(each for each in statistics if not isinstance(each, CellCounts))
        changed_groups = self.max_groups * self.neighbours.differing_units
        vars(self).update(
            statistics_by_column=by_column,
            statistics=statistics,
            scalars=scalars,
            cell_counts=tuple(each for each in statistics if isinstance(each, CellCounts)),
            totals=(*scalars, UnitCount()) if self.keys is None else scalars,
            changed_groups=changed_groups if self.keys is None else min(changed_groups, len(self.keys)),
        )

    @property
    def ranks_groups(self) -> bool:
        """Whether a unit may have more groups than it keeps."""
        return bool(self.query.groups) and (self.keys is None or len(self.keys) > self.max_groups)

    @property
    def is_ordered(self) -> bool:
        """Whether an order decides which contributions of a unit are kept."""
        if self.table.unique:
            return False
        return self.ranks_groups or bool(self.cell_counts) or any(isinstance(each, DistinctCount) for each in self.scalars)

    @property
    def selection_sensitivity(self) -> Sensitivity:
        """Of the counts of distinct units that partition selection looks at."""
        return Sensitivity(l0=self.max_groups * self.neighbours.differing_units, linf=1)

    def grid_range(self, statistic: CentredSum) -> GridRange:
        """Return the grid of a sum."""
        return grid_range_of(statistic.value, self.table)

    def max_contribution(self, statistic: Statistic) -> int:
        """Return the most that one unit adds to one group."""
        return statistic.max_contribution(self.max_rows, self.table)

    def sensitivity(self, statistic: Statistic) -> Sensitivity:
        """Return the sensitivity in grid steps; the proof is at the head of this file."""
        found = self._sensitivities.get(statistic)
        if found is None:
            found = self._sensitivities[statistic] = self._compute_sensitivity(statistic)
        return found

    @cached_property
    def _sensitivities(self) -> dict[Statistic, Sensitivity]:
        """Those that were computed: a search for the noise of a plan needs each of them a hundred times."""
        return {}

    def _compute_sensitivity(self, statistic: Statistic) -> Sensitivity:
        most = self.max_contribution(statistic)
        if isinstance(statistic, CellCounts):
            levels = self.max_groups * len(statistic.branching) * self.neighbours.differing_units
            cells = min(most, statistic.cells)
            return Sensitivity(l0=levels * cells, l1=levels * most, l2_squared=levels * most**2, linf=most)
        if self.neighbours is Neighbours.REPLACE and statistic.has_both_signs(self.table):
            l1, l2_squared = 2 * self.max_groups * most, 4 * self.max_groups * most**2
            return Sensitivity(l0=self.changed_groups, l1=l1, l2_squared=l2_squared, linf=2 * most)
        return Sensitivity(l0=self.changed_groups, linf=most)

    @property
    def columns(self) -> tuple[AnswerColumn, ...]:
        """The columns of the answer beside the group keys."""
        by_name = (one.columns(name, self.table, self.max_groups) for name, one in self.query.aggregates)
        return tuple(chain(*by_name))

    def only(self, name: str) -> "BoundedQuery":
        """Return the same query with one of its columns, and without a view."""
        aggregates = tuple(column for column in self.query.aggregates if column[0] == name)
        return replace(self, query=replace(self.query, aggregates=aggregates, view=ast.WHOLE_ANSWER))


def bound_contributions(query: ast.Query, table: Table, neighbours: Neighbours) -> BoundedQuery:
    """Decide what is computed exactly, and prove what one unit can do to it."""
    if query.margins:
        raise QueryRefused(f"This query asks for {len(query.margins):,} tables at once", TABULATE_HINT)
    table = apply_joins(query.joins, table)
    check_query(query, table)
    if query.view != ast.WHOLE_ANSWER:
        check_view(query, table)
    keys = known_keys(query, table)
    groups = 1 if not query.groups or table.unique else table.max_groups
    if keys is not None:
        groups = min(groups, len(keys))
    bounded = BoundedQuery(query, table, neighbours, groups, 1 if table.unique else table.max_rows, keys)
    check_bounded(bounded)
    return bounded


def check_bounded(bounded: BoundedQuery) -> None:
    """Refuse a query that takes too much work, or whose statistics may leave what is exact."""
    table = bounded.table
    check_work(bounded)
    for statistic in bounded.statistics:
        squares = isinstance(statistic, CentredProduct) or (isinstance(statistic, CentredSum) and statistic.power == 2)
        if squares and statistic.step_size(table) > MAX_SQUARED_STEP:
            raise QueryRefused(
                "Squares or products of these values leave what doubles can hold", "measure them in another unit"
            )
        if bounded.max_contribution(statistic) >= MAX_PRODUCT:
            raise QueryRefused("One unit can add more than 2^62 grid steps", "declare tighter bounds or fewer rows")


def check_work(bounded: BoundedQuery, *, for_error: bool = False) -> None:
    """Refuse a query whose noise or, `for_error`, whose least ε would take long to find, and one with too many counts."""
    distinct = sum(isinstance(each, DistinctCount) for each in bounded.statistics)
    statistics = len(bounded.statistics) - distinct
    quantiles = sum(isinstance(aggregate, Quantile) for _, aggregate in bounded.query.aggregates)
    work = statistics + STATISTICS_PER_QUANTILE * quantiles + STATISTICS_PER_DISTINCT * distinct
    most = MAX_SEARCHED_STATISTICS if for_error else MAX_STATISTICS
    if work > most:
        beside = f" and {quantiles} quantiles, which count as {STATISTICS_PER_QUANTILE} each" if quantiles else ""
        beside += f" and {distinct} distinct counts, which count as {STATISTICS_PER_DISTINCT} each" if distinct else ""
        needed = f"{statistics} statistic{'s' * (statistics != 1)}{beside}"
        hint = f"ask for fewer columns, so that it needs at most {most}"
        if for_error and work <= MAX_STATISTICS:
            raise QueryRefused(f"Finding the ε of an error for {needed} takes too long", f"{hint}, or give epsilon=")
        raise QueryRefused(f"This query needs {needed}", hint)
    counts = 0 if bounded.keys is None else len(bounded.keys) * sum(each.nodes for each in bounded.cell_counts)
    if counts > MAX_CELL_COUNTS:
        raise QueryRefused(f"This query needs {counts:,} counts", "ask for fewer keys, or for fewer histograms")


def known_keys(query: ast.Query, table: Table) -> tuple[tuple[Key, ...], ...] | None:
    """Return every combination of the declared keys; None if the keys of some column are not declared."""
    choices = [keys for keys in list_keys(query, table) if keys is not None]
    if len(choices) < len(query.groups):
        return None
    combinations = 1
    for choice in choices:
        combinations *= len(choice)
    if combinations > MAX_KEYS:
        raise QueryRefused(f"There are more than {MAX_KEYS:,} combinations of keys", "group by fewer columns")
    return tuple(product(*choices))


def list_keys(query: ast.Query, table: Table) -> list[tuple[Key, ...] | None]:
    """Return the keys that rows can have in each grouping of a query; None where they are not declared."""
    choices: list[tuple[Key, ...] | None] = []
    for group in query.groups:
        kind = kind_of(group.value, table)
        if any(key is not None and not accepts(kind, key) for key in group.keys or ()):
            raise QueryRefused(f"A key of `{group.name}` is not a {kind.value}", "list keys of the column's own kind")
        found = grouping_keys(group, table)
        choices.append(None if found is None else narrow_periods(group, found, query.where))
    return choices


def grouping_keys(group: ast.Grouping, table: Table) -> tuple[Key, ...] | None:
    """Return the keys of one grouping: given with the query, declared, or all that lie between declared bounds; None if
    they are not known."""
    if group.keys:
        return group.keys
    match group.value:
        case ast.Ref(column=name):
            column = table.columns[name]
            if column.kind is Kind.REAL:
                raise QueryRefused(f"`{name}` holds reals, which cannot be group keys", f"bin them: {name} // 10")
            return (False, True) if column.kind is Kind.BOOLEAN and column.keys is None else column.keys
        case ast.DateTrunc(period=period, column=ref):
            column = table.columns[ref.column]
            starts = tuple(islice(list_periods(period, *column.moment_bounds), MAX_KEYS + 1)) if column.lower else ()
            return starts if 0 < len(starts) <= MAX_KEYS else None
        case ast.DatePart(part=ast.Part.YEAR, column=ref) if table.columns[ref.column].lower is None:
            return None  # 9,999 years are no list of keys
        case value:
            integers = grid_range_of(value, table)
            step = 10 ** max(0, -value.digits) if isinstance(value, ast.Round) else 1
            keys = range(integers.lower, integers.upper + 1, step)
            return tuple(keys) if len(keys) <= MAX_KEYS else None


# -- in words --------------------------------------------------------------------------------------------------------------

ADJUSTED_POLICY_NOTE = (
    "The data owner changed the policy after looking at the data: its bounds, keys and limits depend on the data, and the "
    "guarantee does not cover what they reveal."
)


def explain_sensitivity(bounded: BoundedQuery) -> str:
    """Say in words what one unit can change, and repeat the declared bounds, and the limits that are applied."""
    unit, rows = bounded.table.unit, formats.count_things(bounded.max_rows, "row")
    groups = f"at most {formats.count_things(bounded.changed_groups, 'group')}"
    if bounded.neighbours is Neighbours.ADD_REMOVE:
        change = f"Adding or removing one {unit} can change {f'{groups} by {rows} each' if bounded.query.groups else rows}"
    elif bounded.query.groups:
        change = f"Replacing one {unit} can change {groups}, each of which loses at most {rows} and gains at most {rows}"
    else:
        change = f"Replacing one {unit} can remove {rows} and add {rows}"
    clipped = [f"{shorten(format_value(value))} to {format_bounds(value, bounded)}" for value in list_clipped(bounded)]
    kind = "bounds" if bounded.table.discovered else "declared bounds"
    change += f"; values are clipped to their {kind}: {', '.join(clipped)}." if clipped else "."
    outside = explain_outside(bounded)
    change += f" {outside}" if outside else ""
    groups_limit = f"{formats.count_things(bounded.max_groups, 'group')} per {unit}, " if bounded.query.groups else ""
    limits = f"Limits: {groups_limit}{rows} per {unit}{' and group' if bounded.query.groups else ''}."
    explained = f"{change} {explain_limits(unit, limits, unique=bounded.table.unique)}"
    return f"{explained} {ADJUSTED_POLICY_NOTE}" if bounded.table.adjusted_after_looking else explained


def explain_limits(unit: str, limits: str, *, unique: bool) -> str:
    """Return the limits on contributions, in words, if they are applied; else say why they are not.

    >>> explain_limits("id", "Limits: 1 row per id.", unique=True)
    'It is declared that each id has one row, and taken for granted: no limit is applied.'
    """
    if not parse_unit(unit):
        return ROW_UNIT_NOTE
    return f"It is declared that each {unit} has one row, and taken for granted: no limit is applied." if unique else limits


def list_clipped(bounded: BoundedQuery) -> list[ast.Value]:
    """Return the values that are clipped to bounds before columns are computed from them."""
    return [*dict.fromkeys(value for _, one in bounded.query.aggregates for value in one.values_with_bounds())]


def explain_outside(bounded: BoundedQuery) -> str:
    """Say where values outside of the bounds are: of the columns that rows are grouped by, and of histograms."""
    groups = [_explain_group(group, bounded) for group in bounded.query.groups if not isinstance(group.value, ast.Ref)]
    histograms = [_explain_histogram(each) for _, each in bounded.query.aggregates if isinstance(each, Histogram)]
    return " ".join(dict.fromkeys(filter(None, (*groups, *histograms))))


def _explain_group(group: ast.Grouping, bounded: BoundedQuery) -> str:
    """A group that is computed from a column is computed from its clipped values."""
    declared = [name for name in columns_in(group.value) if bounded.table.columns[name].lower is not None]
    filtered = {name: _find_filtered_ends(name, bounded) for name in declared}
    names = [name for name, (below, above) in filtered.items() if not (below and above)]
    clipped = [f"`{name}` is clipped to {format_bounds(ast.Ref(name), bounded)}" for name in names]
    if not clipped:
        return ""
    if _keeps_order(group) and any(filtered[names[0]]):
        below, _ = filtered[names[0]]
        end = "the last group also holds what lies above" if below else "the first group also holds what lies below"
        return f"{clipped[0]}: {end}. Filter with WHERE to leave it out."
    ends = "the first and last group" if _keeps_order(group) else "the groups that these bounds fall into"
    return f"{' and '.join(clipped)}: {ends} also hold what lies outside. Filter with WHERE to leave it out."


def _find_filtered_ends(name: str, bounded: BoundedQuery) -> tuple[bool, bool]:
    """Return whether WHERE leaves out what lies below the bounds of a column, and what lies above: it compares values before
    they are clipped. Only comparisons with constants that all must hold are looked at."""
    column, where = bounded.table.columns[name], bounded.query.where
    ends: tuple[Any, Any] = column.number_bounds or column.moment_bounds
    lower, upper = ends
    below = above = False
    for part in list_conjuncts(where):
        match part:
            case ast.Compare(order=order, left=ast.Ref(column=found), right=ast.Constant() | ast.Number() as right):
                if found != name or type(right.value) is not type(lower):
                    continue
                constant: Any = right.value
                at_least, at_most = constant >= lower, constant <= upper
                below |= at_least and order in (ast.Order.AT_LEAST, ast.Order.MORE, ast.Order.EQUAL)
                above |= at_most and order in (ast.Order.AT_MOST, ast.Order.LESS, ast.Order.EQUAL)
                if column.kind is Kind.DATE and order is ast.Order.LESS:  # before the day after the last
                    above |= constant.toordinal() - 1 == upper.toordinal()
            case _:
                pass
    return below, above


def _keeps_order(group: ast.Grouping) -> bool:
    """Return whether larger values of one column are in later groups, and all of these are shown."""
    match group.value:
        case ast.Bin(value=ast.Ref()) | ast.Round(value=ast.Ref()) | ast.DateTrunc() | ast.DatePart(part=ast.Part.YEAR):
            return not group.keys
        case _:
            return False


def _explain_histogram(histogram: Histogram) -> str:
    edges = f"[{nearest_float(histogram.edges[0]):.6g}, {nearest_float(histogram.edges[-1]):.6g}]"
    return (
        f"A histogram of `{shorten(format_value(histogram.value))}` counts what lies in {edges}; other rows are in no cell."
    )


def format_bounds(value: ast.Value, bounded: BoundedQuery) -> str:
    """Write the bounds of a column as they were declared, those of an expression as they follow from them."""
    discovered = " (discovered)" if isinstance(value, ast.Ref) and value.column in bounded.table.discovered else ""
    column = bounded.table.columns[value.column] if isinstance(value, ast.Ref) else None
    if column is not None and column.lower is not None and column.number_bounds is None:
        return f"[{', '.join(end.isoformat() for end in column.moment_bounds)}]"
    declared = None if column is None else column.number_bounds
    grid_range = grid_range_of(value, bounded.table)
    ends = declared or (grid_range.lower * grid_range.grid, grid_range.upper * grid_range.grid)
    return f"[{', '.join(f'{nearest_float(end):.6g}' for end in ends)}]{discovered}"


def shorten(text: str) -> str:
    """Return the beginning of a text that is too long to be quoted."""
    return text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}…"
