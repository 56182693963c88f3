"""What a query may ask of a table: which column a name means, what a join adds, and that no row can make the query fail.

A query comes from SQL (`query.parser`) or from Python (`query.builder`). Both look up names in a `Scope`, and every query
passes `check_query` before anything is paid for. What passes is a total function of each possible row: every name is a
declared column, only like kinds are compared (a cast may raise on a row), every numeric expression has a `GridRange`, and
nothing is nested too deeply to be lowered. So an engine that runs it cannot fail on a value.

A quote is free, so its work must be bounded as well: by the length of the text and the number of its tokens
(`query.parser`), by the number of columns, and by the number of statistics that get noise (`query.contribution`).
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import ceil, floor
from numbers import Number
from types import UnionType
from typing import Any, assert_never, get_args, get_origin, get_type_hints

from discreet._numbers import nearest_float
from discreet.errors import QueryRefused
from discreet.query import ast
from discreet.query.grid import check_comparable, grid_range_of
from discreet.query.schema import Kind, PublicTable, Table, accepts, suggest_name
from discreet.text import to_printable

MAX_COLUMNS = 300
MAX_GROUPINGS = 20
MAX_MARGINS = 10_000  # tables of one query
MAX_DEPTH = 66  # of values and conditions in each other
MAX_NODES = 20_000  # values and conditions of a query, written out; columns and constants in them do not count
MAX_CONSTANT = 10**15
MAX_BIN_WIDTH = 1 << 31
MAX_CELLS = 1000
MAX_DIGITS = 15  # of ROUND
MAX_PATTERN = 1000  # characters of LIKE
MAX_WILDCARDS = 3
"""Runs of % in a pattern: engines try all ways to divide a text between them, so each multiplies the time by its length."""

INTERVAL_SUFFIXES = ("_lower", "_upper", "_reliable")
"""In a table, a column n of the answer has n_lower, n_upper and n_reliable beside it."""


# -- names and joins -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Scope:
    """The columns that a query can name: those of its table, and of the public tables that are joined to it.

    **Proof** that a join costs nothing. A public table is the same on neighbouring tables, and no value occurs twice in the
    column that it is joined by. So the join is a function of one row, which yields that row with more columns, or nothing.
    The rows of a unit stay its own, no unit gets more of them, and a unit with one row still has at most one: what bounds a
    unit's contribution before the join bounds it afterwards. A join that could match two rows would void this, and is
    refused.
    """

    table: Table  # with the columns of the joined tables, called "public.column"
    joins: tuple[ast.Join, ...] = ()

    def add_join(self, join: ast.Join) -> "Scope":
        """Return the scope with one join more, refused if it could match a row twice."""
        if join.table in [earlier.table for earlier in self.joins]:
            raise QueryRefused(f"`{join.table}` is joined twice", "join each public table once")
        return Scope(_join_columns(self.table, join), (*self.joins, join))

    def find_columns(self, name: str, table: str | None = None, *, exact: bool = True) -> list[str]:
        """Return the columns that a name can mean, one if all is well: as it is written, or else ignoring case.

        A column by which two tables are joined, if it has the same name in both, is the first table's.
        """
        joined = {f"{j.table}.{name}": (j.table, name) for j in self.joins for name in self.table.public[j.table].columns}
        shared = {f"{join.table}.{join.there}" for join in self.joins if join.here == join.there}
        named = []
        for column in self.table.columns:
            owner, bare = joined.get(column, (self.table.name, column))
            if column not in shared if table is None else owner.lower() == table.lower():
                named.append((bare, column))
        found = [column for bare, column in named if bare == name]
        return found if found or exact else [column for bare, column in named if bare.lower() == name.lower()]

    def explain_name(self, name: str, found: list[str]) -> tuple[str, str]:
        """Return what is wrong with a name that means none of the columns, or several, and what to write."""
        if found:
            joined = {f"{join.table}.{name}" for join in self.joins for name in self.table.public[join.table].columns}
            full = [column if column in joined else f"{self.table.name}.{column}" for column in found]
            return f"The name `{name}` means {len(found)} columns", f"write {' or '.join(full)}"
        return f"The column `{name}` is not declared", suggest_name(name, self.table.columns)


def suggest_table(name: str, tables: Iterable[str]) -> str:
    """Return a hint that names the public tables."""
    known = list(tables)
    return suggest_name(name, known) if known else 'declare one first: public={"cities": "cities.csv"}'


def apply_joins(joins: Iterable[ast.Join], table: Table) -> Table:
    """Return the table as conditions, keys and values see it: a joined column is called "public.column".

    >>> from discreet.query.schema import Column
    >>> city, region = Column(Kind.TEXT), Column(Kind.TEXT, keys=("north", "south"))
    >>> cities = PublicTable("cities", {"city": city, "region": region}, frozenset({"city"}))
    >>> people = Table("people", "id", {"id": Column(Kind.INTEGER), "city": city}, public={"cities": cities})
    >>> list(apply_joins([ast.Join("cities", "city", "city")], people).columns)
    ['id', 'city', 'cities.city', 'cities.region']
    """
    scope = Scope(table)
    for join in joins:
        scope = scope.add_join(join)
    return scope.table


def _join_columns(table: Table, join: ast.Join) -> Table:
    public = table.public.get(join.table)
    if public is None:
        raise QueryRefused(f"`{join.table}` is not a public table", suggest_table(join.table, table.public))
    _check_matches_once(join, table, public)
    columns = {f"{public.name}.{name}": column for name, column in public.columns.items()}
    for name, column in columns.items():
        if name in table.columns:
            raise QueryRefused(f"There are two columns called `{name}`", f"rename the public table `{public.name}`")
        if join.left and column.keys is not None and None not in column.keys:  # NULL where no row matches
            columns[name] = replace(column, keys=(*column.keys, None))
    return replace(table, columns={**table.columns, **columns})


def _check_matches_once(join: ast.Join, table: Table, public: PublicTable) -> None:
    here, there = table.columns.get(join.here), public.columns.get(join.there)
    if here is None:
        raise QueryRefused(f"The column `{join.here}` is not declared", suggest_name(join.here, table.columns))
    if there is None:
        raise QueryRefused(f"`{public.name}` has no column `{join.there}`", suggest_name(join.there, public.columns))
    if here.kind is not there.kind or here.kind is Kind.REAL:
        raise QueryRefused(
            f"`{join.here}` ({here.kind.value}) cannot be matched with `{public.name}.{join.there}` ({there.kind.value})",
            "join columns of the same kind, not real",
        )
    if join.there not in public.unique:
        raise QueryRefused(
            f"A value occurs twice in `{public.name}.{join.there}`, so one row could become two",
            f"join by a column of unique values: {', '.join(sorted(public.unique)) or f'`{public.name}` has none'}",
        )


# -- the check of a query --------------------------------------------------------------------------------------------------


def check_size(query: object) -> None:
    """Refuse a query that is too long once it is written out.

    x BETWEEN a AND b is two comparisons of one x, and so twice as long as x for an engine; nested, it doubles each time. The
    parts are counted here without writing them out.
    """
    if _count_nodes(query, {}, 4 * MAX_DEPTH) > MAX_NODES:
        raise QueryRefused("The query is too long once each BETWEEN is written as two comparisons", "nest fewer of them")


def _count_nodes(part: object, counted: dict[int, int], room: int) -> int:
    """Return how many nodes a part has; what is nested more than `room` deep is refused elsewhere."""
    if room == 0 or isinstance(part, ast.Ref | ast.Number | ast.Constant):
        return 0
    if isinstance(part, tuple):
        return sum(_count_nodes(each, counted, room - 1) for each in part)
    if not is_dataclass(part):
        return 0
    if id(part) not in counted:
        counted[id(part)] = 1 + sum(_count_nodes(getattr(part, each.name), counted, room - 1) for each in fields(part))
    return counted[id(part)]


def check_column_count(columns: int) -> None:
    """Refuse an answer that is too wide, while it is read: what follows compares its columns with each other."""
    if columns > MAX_COLUMNS:
        raise QueryRefused(f"The answer has more than {MAX_COLUMNS} columns", f"ask for at most {MAX_COLUMNS} at once")


def check_query(query: ast.Query, table: Table) -> None:
    """Refuse a query that is not a total function of every possible row of the table, which has the joined columns."""
    check_size(query)
    if query.table != table.name:
        raise QueryRefused(f"The table `{query.table}` is not known", f"query `{table.name}`")
    if not query.aggregates:
        raise QueryRefused("The query has no aggregate, and rows are private", "add a count, a sum or an average")
    check_column_count(len(query.aggregates))
    if len(query.groups) > MAX_GROUPINGS:
        raise QueryRefused(f"Rows are grouped by {len(query.groups):,} columns", f"group by at most {MAX_GROUPINGS}")
    names = Counter([*(name for name, _ in query.aggregates), *(group.name for group in query.groups)])
    for name, times in names.items():
        if not isinstance(name, str) or not name or to_printable(name) != name:
            raise QueryRefused(
                f"A column of the answer has the name {str(name)[:40]!a}, which cannot be shown",
                "give it a name of one or more printable characters",
            )
        if times > 1:
            raise QueryRefused(f"Two columns of the answer are called `{name}`", "give each its own name")
    for name, aggregate in query.aggregates:
        parts = [f"{name}{suffix}" for suffix in INTERVAL_SUFFIXES]
        if aggregate.has_cells:
            parts = [other for other in names if other.startswith(f"{name}[")]
        for part in parts:
            if part in names:
                raise QueryRefused(
                    f"The column `{part}` is called like a part of `{name}` in a table", "give one of the two another name"
                )
        aggregate.check(table)
    for group in query.groups:
        check_group_value(group.value, table)
        if group.keys is not None and (not group.keys or len(set(group.keys)) < len(group.keys)):
            raise QueryRefused(f"The keys of `{group.name}` are empty or repeated", "list each key once")
    if len({group.value for group in query.groups}) < len(query.groups):
        raise QueryRefused("Rows are grouped twice by the same column", "name each grouping once")
    check_margins(query.margins, len(query.groups))
    if query.where is not None:
        check_condition(query.where, table)


def check_margins(margins: Sequence[ast.Margin], groups: int) -> None:
    """Refuse margins that are not those of a query with so many groupings."""
    if len(margins) > MAX_MARGINS:
        raise QueryRefused(f"The query asks for {len(margins):,} tables at once", f"ask for at most {MAX_MARGINS:,}")
    if not margins:
        return
    used = {index for margin in margins for index in margin}
    if margins != ast.sort_margins(margins) or used != {*range(groups)} or margins == (tuple(range(groups)),):
        raise QueryRefused("The margins of the query are not those of its groupings", "write GROUP BY GROUPING SETS (…)")


def check_ref(ref: ast.Ref, table: Table) -> None:
    """Refuse a column that is not declared."""
    if ref.column not in table.columns:
        raise QueryRefused(f"The column `{ref.column}` is not declared", suggest_name(ref.column, table.columns))


def check_group_value(value: ast.GroupValue, table: Table) -> None:
    """Refuse what rows cannot be grouped by."""
    match value:
        case ast.Ref():
            check_ref(value, table)
        case ast.DateTrunc(column=ref):
            _check_moment(ref, table, "DATE_TRUNC")
        case ast.Round(digits=digits) if digits > 0:
            raise QueryRefused("Values with decimals cannot be group keys", "round to integers, or bin them: column // 10")
        case _:
            check_value(value, table)


def kind_of(value: ast.Value | ast.DateTrunc, table: Table) -> Kind:
    """Return what a checked expression is: a column's own kind, a date, or a number."""
    match value:
        case ast.Ref(column=name):
            return table.columns[name].kind
        case ast.DateTrunc():
            return Kind.DATE
    return Kind.INTEGER if grid_range_of(value, table).exponent >= 0 else Kind.REAL


def _check_moment(ref: ast.Ref, table: Table, function: str) -> None:
    """Refuse a column that does not hold dates or timestamps."""
    check_ref(ref, table)
    kind = table.columns[ref.column].kind
    wanted = "timestamp" if function == "HOUR" else "date or a timestamp"
    if kind is not Kind.TIMESTAMP and (kind is not Kind.DATE or function == "HOUR"):
        raise QueryRefused(
            f"{function} takes a {wanted}, and the column `{ref.column}` is of kind {kind.value}",
            f"name a column of dates; if `{ref.column}` holds dates, declare its kind in the policy",
        )


def check_value(value: ast.Value, table: Table, room: int = MAX_DEPTH) -> None:
    """Refuse an expression without bounds, with results that could grow too large, or nested more than `room` deep."""
    if room == 0:
        raise QueryRefused("The expression is nested too deeply", "simplify it")
    match value:
        case ast.Ref():
            check_ref(value, table)
        case ast.Number(value=number):
            _check_number(number)
        case ast.Plus(left=left, right=right) | ast.Minus(left=left, right=right) | ast.Times(left=left, right=right):
            check_value(left, table, room - 1)
            check_value(right, table, room - 1)
        case ast.Bin(value=inner, width=width):
            if isinstance(width, bool) or not isinstance(width, int | Fraction) or not 0 < width < MAX_BIN_WIDTH:
                raise QueryRefused("A bin has a width above 0", "write column // 10")
            check_value(inner, table, room - 1)
        case ast.Case(branches=branches, default=default):
            _check_not_empty(branches)
            for condition, branch in branches:
                check_condition(condition, table, room - 1)
                check_value(branch, table, room - 1)
            if default is not None:
                check_value(default, table, room - 1)
        case ast.Divide(value=inner, divisor=divisor):
            _check_number(divisor)
            if divisor == 0:
                raise QueryRefused("A division by zero", "divide by a number that is not 0")
            check_value(inner, table, room - 1)
        case ast.Round(value=inner, rounding=rounding, digits=digits):
            most = MAX_DIGITS if rounding is ast.Rounding.NEAREST else 0
            if isinstance(digits, bool) or not isinstance(digits, int) or abs(digits) > most:
                raise QueryRefused(
                    f"{rounding.value} takes {f'{-most} to {most} digits' if most else 'no digits'}", "write ROUND(x, 2)"
                )
            check_value(inner, table, room - 1)
        case ast.Abs(value=inner):
            check_value(inner, table, room - 1)
        case ast.Coalesce(values=values) | ast.Extreme(values=values):
            _check_not_empty(values)
            for each in values:
                check_value(each, table, room - 1)
        case ast.NullIf(value=inner, other=other):
            check_value(inner, table, room - 1)
            check_value(other, table, room - 1)
            check_comparable(inner, other, table)
        case ast.DatePart(part=part, column=ref):
            _check_moment(ref, table, part.value.upper())
        case _:
            assert_never(value)
    grid_range_of(value, table)


def check_condition(condition: ast.Condition, table: Table, room: int = MAX_DEPTH) -> None:
    """Refuse a comparison of unlike things, or conditions nested more than `room` deep."""
    if room == 0:
        raise QueryRefused("The condition is nested too deeply", "simplify it")
    match condition:
        case ast.Compare(left=ast.Ref() | ast.DateTrunc() as left, right=ast.Constant() | ast.Number() as constant):
            _check_constant(left, constant, table)
        case ast.Compare(left=left, right=right):
            if isinstance(right, ast.Constant):
                raise QueryRefused(
                    f"An expression is compared with {_name_type(right.value)}", "compare that with a column alone"
                )
            if isinstance(left, ast.DateTrunc):
                raise QueryRefused("A truncated date is compared with an expression", "compare it with a date")
            check_value(left, table, room - 1)
            check_value(right, table, room - 1)
            check_comparable(left, right, table)
        case ast.OneOf(value=left, among=among):
            _check_not_empty(among)
            if not isinstance(left, ast.Ref | ast.DateTrunc):
                check_value(left, table, room - 1)
            for constant in among:
                if isinstance(left, ast.Ref | ast.DateTrunc):
                    _check_constant(left, constant, table)
                elif isinstance(constant, ast.Number):
                    check_value(constant, table, room - 1)
                    check_comparable(left, constant, table)
                else:
                    raise QueryRefused(
                        f"An expression is compared with {_name_type(constant.value)}", "compare that with a column alone"
                    )
        case ast.Missing(value=inner):
            check_group_value(inner, table) if isinstance(inner, ast.Ref | ast.DateTrunc) else check_value(
                inner, table, room - 1
            )
        case ast.Like(value=ref, pattern=pattern):
            _check_pattern(ref, pattern, table)
        case ast.All(parts=parts) | ast.Any(parts=parts):
            _check_not_empty(parts)
            for part in parts:
                check_condition(part, table, room - 1)
        case ast.Not(part=part):
            check_condition(part, table, room - 1)
        case _:
            assert_never(condition)


def _check_pattern(ref: ast.Ref, pattern: str, table: Table) -> None:
    """Refuse a pattern that engines do not agree on, or that takes them long."""
    check_ref(ref, table)
    kind = table.columns[ref.column].kind
    if kind is not Kind.TEXT:
        raise QueryRefused(
            f"LIKE takes a text, and the column `{ref.column}` is of kind {kind.value}", "compare it with =, < or BETWEEN"
        )
    if not isinstance(pattern, str) or not accepts(Kind.TEXT, pattern) or len(pattern) > MAX_PATTERN:
        raise QueryRefused("A pattern of LIKE is not a text, or is too long", f"write at most {MAX_PATTERN:,} characters")
    if "\\" in pattern:
        raise QueryRefused(
            "A pattern of LIKE holds a backslash, which engines read differently", "use _ for that one character"
        )
    if len(re.findall("%+", pattern)) > MAX_WILDCARDS:
        raise QueryRefused(
            f"A pattern of LIKE has more than {MAX_WILDCARDS} separate %, which takes long on long texts",
            "use fewer, or several LIKE joined by AND",
        )


def _check_constant(value: ast.Ref | ast.DateTrunc, constant: ast.Number | ast.Constant, table: Table) -> None:
    """Refuse a constant that is not of the column's own kind: nothing is cast."""
    check_group_value(value, table)
    kind = kind_of(value, table)
    if isinstance(constant, ast.Number):
        _check_number(constant.value)
        fits = kind in (Kind.INTEGER, Kind.REAL)
    else:
        fits = accepts(kind, constant.value)
    if not fits:
        subject = f"The column `{value.column}` holds" if isinstance(value, ast.Ref) else f"`{ast.format_value(value)}` is"
        raise QueryRefused(
            f"{subject} a {kind.value}, and is compared with {_name_type(constant.value)}",
            f"compare it with a constant of kind {kind.value}",
        )


def _check_number(number: Fraction) -> None:
    if not isinstance(number, Fraction) or abs(number) > MAX_CONSTANT or number.denominator > MAX_CONSTANT:
        raise QueryRefused("A number is too large or too fine", "write at most 10^15, with at most 15 decimals")


def _check_not_empty(parts: tuple[object, ...]) -> None:
    if not parts:
        raise QueryRefused("A list of conditions or constants is empty", "leave it out")


# -- the cells of a histogram ----------------------------------------------------------------------------------------------


def compute_edges(value: ast.Value, width: Fraction, table: Table) -> tuple[Fraction, ...]:
    """Return the multiples of `width` that cover the declared bounds.

    >>> from discreet.query.schema import Column
    >>> people = Table("people", "id", {"id": Column(Kind.INTEGER), "age": Column(Kind.INTEGER).with_bounds(18, 65)})
    >>> [str(edge) for edge in compute_edges(ast.Ref("age"), Fraction(20), people)]
    ['0', '20', '40', '60', '80']
    """
    if width <= 0:
        raise QueryRefused("The width of a histogram's cells is not above 0", "write HISTOGRAM(column, 10)")
    grid_range = grid_range_of(value, table)
    lower, upper = grid_range.lower * grid_range.grid, grid_range.upper * grid_range.grid
    if isinstance(value, ast.Ref):
        lower, upper = table.columns[value.column].number_bounds or (lower, upper)  # as declared, not rounded to the grid
    first = floor(lower / width)
    last = max(ceil(upper / width), first + 1)
    if last - first > MAX_CELLS:
        raise QueryRefused(f"The histogram has more than {MAX_CELLS:,} cells", "make them wider")
    return check_edges(tuple(n * width for n in range(first, last + 1)))


def check_edges(edges: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """Return the edges, refused unless there are at least two and each lies above the one before."""
    if len(edges) < 2:
        raise QueryRefused("A histogram needs a width, or at least two edges", "write HISTOGRAM(column, 0, 10, 20)")
    if len(edges) > MAX_CELLS + 1:
        raise QueryRefused(f"The histogram has more than {MAX_CELLS:,} cells", "give fewer edges")
    for edge in edges:
        if not isinstance(edge, Fraction) or abs(edge) > MAX_CONSTANT or edge.denominator > MAX_CONSTANT:
            raise QueryRefused("An edge is too large or too fine", "write at most 10^15, with at most 15 decimals")
    if any(a >= b for a, b in pairwise(edges)):
        raise QueryRefused("The edges of a histogram must increase", "write them in order, each once")
    if len({f"{nearest_float(edge):.12g}" for edge in edges}) < len(edges):
        raise QueryRefused("Two edges are the same in 12 digits, and so would be their columns", "put them further apart")
    return tuple(edges)


# -- queries that were made by hand ----------------------------------------------------------------------------------------


def check_types(query: ast.Query) -> None:
    """Refuse a query with something else where a part of a query belongs.

    >>> from discreet.query.aggregates import CountRows
    >>> check_types(ast.Query("people", (("n", CountRows()),), where=5))
    Traceback (most recent call last):
    discreet.errors.QueryRefused: The where of Query is an int, which does not belong there. Ask in SQL, or with select(…).
    """
    _check_fields(query, MAX_DEPTH + 3)  # the query, an aggregate in it, and the name of a column are levels too


def _check_fields(part: Any, room: int) -> None:
    """Refuse a part that has a wrong field, or is nested more than `room` deep."""
    if room == 0:
        raise QueryRefused("The query is nested too deeply", "simplify it")
    whole: Any = type(part)
    for name, hint in _field_types(whole):
        value = getattr(part, name)
        if not _fits_type(value, hint, room):
            raise QueryRefused(
                f"The {name} of {whole.__name__} is {_name_type(value)}, which does not belong there",
                "ask in SQL, or with select(…)",
            )


@lru_cache(maxsize=64)
def _field_types(whole: Any) -> tuple[tuple[str, Any], ...]:
    hints = get_type_hints(whole)
    return tuple((field.name, hints[field.name]) for field in fields(whole))


def _name_type(value: object) -> str:
    kind = type(value).__name__
    return "missing" if value is None else f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def _fits_type(value: Any, hint: Any, room: int) -> bool:
    parts = get_args(hint)
    if isinstance(hint, UnionType):
        return any(_fits_type(value, part, room) for part in parts)
    if get_origin(hint) is tuple:
        if not isinstance(value, tuple):
            return False
        if parts[-1] is Ellipsis:
            return all(_fits_type(each, parts[0], room) for each in value)
        return len(value) == len(parts) and all(_fits_type(*pair, room) for pair in zip(value, parts, strict=True))
    if not isinstance(value, Number if hint is Fraction else hint):  # of numbers, `check_query` has more to say
        return False
    if is_dataclass(value):
        _check_fields(value, room - 1)
    return True
