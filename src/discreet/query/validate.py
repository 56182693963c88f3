"""Whether a question is one that no row can make fail: names, kinds and room, all before anything is paid.

A question may come from a text or from Python; both pass through here, so that lowering it cannot meet a surprise.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from fractions import Fraction
from functools import lru_cache
from types import UnionType
from typing import Any, assert_never, get_args, get_origin, get_type_hints

from discreet.errors import QueryRefused
from discreet.query import ast
from discreet.query.edges import MAX_CONSTANT, check_edges
from discreet.query.grid import check_comparable, grid_range_of
from discreet.query.schema import Kind, Table, accepts
from discreet.query.statistics import build_histogram

# How much a question may ask for at once, so that reading and quoting any question that is accepted takes a moment.
#
# A quote is free, so its work must be bounded: by the length of the text, the number of its words, the number of
# columns, and
# the number of totals that get noise. A quantile's error is that of a weighted sum of noises, which takes as long as that of
# six totals; and where an error is given instead of an ε, a search prices the question several times.


MAX_CHARACTERS = 20_000
MAX_TOKENS = 10_000
MAX_COLUMNS = 300
MAX_GROUPINGS = 20
MAX_STATISTICS = 300
MAX_SEARCHED_STATISTICS = 24
STATISTICS_PER_QUANTILE = 6


def check_text(text: str) -> None:
    """Refuse a text that is too long to be read."""
    if len(text) > MAX_CHARACTERS:
        raise QueryRefused(f"the question is longer than {MAX_CHARACTERS:,} characters", "ask several shorter ones")


def check_tokens(count: int) -> None:
    """Refuse a text of too many words, numbers and signs."""
    if count > MAX_TOKENS:
        raise QueryRefused(f"the question has more than {MAX_TOKENS:,} words and signs", "ask several shorter ones")


def check_columns(columns: int, groupings: int) -> None:
    """Refuse an answer with too many columns."""
    if columns > MAX_COLUMNS:
        raise QueryRefused(f"the answer has {columns:,} columns", f"ask for at most {MAX_COLUMNS} at once")
    if groupings > MAX_GROUPINGS:
        raise QueryRefused(f"the rows are grouped by {groupings:,} columns", f"group by at most {MAX_GROUPINGS}")


def check_statistics(aggregates: Iterable[ast.Aggregate], statistics: int, *, for_error: bool = False) -> None:
    """Refuse a question whose noise or, if `searched`, whose least ε would take long to find."""
    quantiles = sum(isinstance(aggregate, ast.Quantile) for aggregate in aggregates)
    work = statistics + STATISTICS_PER_QUANTILE * quantiles
    most = MAX_SEARCHED_STATISTICS if for_error else MAX_STATISTICS
    if work <= most:
        return
    beside = f" and {quantiles} quantiles, which count as {STATISTICS_PER_QUANTILE} each" if quantiles else ""
    counted = f"{statistics} total{'s' * (statistics > 1)}{beside}"
    hint = f"ask for fewer columns, so that it needs at most {most}"
    if for_error and work <= MAX_STATISTICS:
        raise QueryRefused(f"finding the price of an error for {counted} takes too long", f"{hint}, or give epsilon=")
    raise QueryRefused(f"this question needs {counted}", hint)


MAX_DEPTH = 70  # a little more than the reader of SQL allows, which counts otherwise
MAX_BIN_WIDTH = 1 << 31
INTERVAL_SUFFIXES = ("_lower", "_upper", "_reliable")
"""In a table, a column n of the answer has n_lower, n_upper and n_reliable beside it."""


def check_query(query: ast.Query, table: Table) -> None:
    """Refuse what is not a total function of every possible row."""
    _check_structure(query, table)
    for _, aggregate in query.aggregates:
        match aggregate:
            case ast.CountRows() | ast.CountUnits():
                pass
            case ast.CountValues(value=ast.Ref() as ref):
                check_ref(ref, table)  # whether it is missing can be seen without bounds
            case ast.Quantile(value=value, q=q):
                check_value(value, table)
                if not isinstance(q, Fraction) or not 0 < q < 1 or q.denominator > MAX_CONSTANT:
                    raise QueryRefused("a quantile takes a share between 0 and 1", "write QUANTILE(column, 0.9)")
            case ast.Histogram(value=value, edges=edges):
                check_value(build_histogram(value, check_edges(edges)).cell, table)  # a plain column needs no bounds
            case _:
                check_value(aggregate.value, table)
    for group in query.groups:
        check_ref(group.value, table) if isinstance(group.value, ast.Ref) else check_value(group.value, table)
    if query.where is not None:
        check_condition(query.where, table)


def _check_structure(query: ast.Query, table: Table) -> None:
    """What the reader of SQL ensures, also for a question that was built in Python."""
    if query.table != table.name:
        raise QueryRefused(f"the table {query.table} is not known", f"ask about {table.name}")
    if not query.aggregates:
        raise QueryRefused("nothing is counted or added up", "add a count, a sum or an average")
    names = [name for name, _ in query.aggregates] + [group.name for group in query.groups]
    check_columns(len(query.aggregates), len(query.groups))
    for name, times in Counter(names).items():
        if not isinstance(name, str) or times > 1:
            raise QueryRefused(f"two columns of the answer are called {name}", "give each its own name")
    if len({group.value for group in query.groups}) < len(query.groups):
        raise QueryRefused("rows are grouped twice by the same", "name each grouping once")
    for name, aggregate in query.aggregates:
        cells, parts = isinstance(aggregate, ast.Histogram), [f"{name}{end}" for end in INTERVAL_SUFFIXES]
        for other in names:
            if other.startswith(f"{name}[") if cells else other in parts:
                raise QueryRefused(
                    f"{other} is also what a part of {name} is called in a table", "give one of the two another name"
                )
    for group in query.groups:
        if group.keys is not None and (not group.keys or len(set(group.keys)) < len(group.keys)):
            raise QueryRefused(f"the keys of {group.name} are empty or repeated", "list each key once")
    _check_constants(query, MAX_DEPTH)


def _check_constants(piece: object, room: int) -> None:
    """Numbers within what an engine can hold, everywhere in a question that is not too deep."""
    if room == 0:
        raise QueryRefused("this is nested too deeply", "ask something simpler")
    match piece:
        case ast.Number(value=number):
            if not isinstance(number, Fraction) or abs(number) > MAX_CONSTANT or number.denominator > MAX_CONSTANT:
                raise QueryRefused(
                    "this number is too large or too fine", "keep constants below 10^15, with at most 15 decimals"
                )
        case ast.Bin(value=value, width=width):
            if isinstance(width, bool) or not isinstance(width, int | Fraction) or not 0 < width < MAX_BIN_WIDTH:
                raise QueryRefused("a bin has a width above 0", "write column // 10")
            _check_constants(value, room - 1)
        case ast.OneOf(among=()) | ast.All(parts=()) | ast.Any(parts=()) | ast.Case(branches=()):
            raise QueryRefused("a list of conditions or constants is empty", "leave it out")
        case tuple():
            for part in piece:
                _check_constants(part, room)
        case ast.Histogram(value=value):
            _check_constants(value, room - 1)
        case _ if is_dataclass(piece):
            for field in fields(piece):
                _check_constants(getattr(piece, field.name), room - 1)


def check_ref(ref: ast.Ref, table: Table) -> None:
    """Refuse a column that is not declared."""
    if ref.column not in table.columns:
        raise QueryRefused(f"{ref.column} is not declared", f"take one of {', '.join(table.columns)}")


def check_value(value: ast.Value, table: Table) -> None:
    """Refuse a value without bounds or without room, and conditions inside it that are no better."""
    _check_names(value, table)
    grid_range_of(value, table)  # of every part of it too, once


def _check_names(value: ast.Value, table: Table) -> None:
    match value:
        case ast.Ref():
            check_ref(value, table)
        case ast.Number():
            pass
        case ast.Plus(left=left, right=right) | ast.Minus(left=left, right=right) | ast.Times(left=left, right=right):
            _check_names(left, table)
            _check_names(right, table)
        case ast.Bin(value=inner):
            _check_names(inner, table)
        case ast.Case(branches=branches, default=default):
            for condition, branch in branches:
                check_condition(condition, table)
                _check_names(branch, table)
            if default is not None:
                _check_names(default, table)
        case _:
            assert_never(value)


def check_condition(condition: ast.Condition, table: Table) -> None:
    """Refuse a comparison of unlike things."""
    match condition:
        case ast.Compare(left=left, right=right):
            _check_compare(left, right, table)
        case ast.OneOf(value=ref, among=among):
            for constant in among:
                _check_compare(ref, constant, table)
        case ast.Missing(value=ref):
            check_ref(ref, table)
        case ast.All(parts=parts) | ast.Any(parts=parts):
            for part in parts:
                check_condition(part, table)
        case ast.Not(part=part):
            check_condition(part, table)
        case _:
            assert_never(condition)


def _check_compare(left: ast.Value, right: ast.Value | ast.Constant, table: Table) -> None:
    if isinstance(left, ast.Ref) and isinstance(right, ast.Constant | ast.Number):
        check_ref(left, table)
        kind = table.columns[left.column].kind
        if isinstance(right, ast.Number) and kind in (Kind.INTEGER, Kind.REAL):
            return
        if isinstance(right, ast.Number) or not accepts(kind, right.value):
            raise QueryRefused(f"this is not a {kind.value}, which {left.column} holds", "compare like with like")
        return
    if isinstance(right, ast.Constant):
        raise QueryRefused("a text, date or truth value is compared with a column only", "name the column")
    check_value(left, table)
    check_value(right, table)
    check_comparable(left, right, table)


# Whether a plan that was built by hand is one: every field holds what `plan` says it does.


def check_types(query: ast.Query) -> None:
    """Refuse a plan with something else where a part of a question belongs.

    >>> check_types(ast.Query("people", (("n", ast.CountRows()),), where=5))
    Traceback (most recent call last):
    discreet.errors.QueryRefused: the where of Query is an int, which does not belong there. Ask in SQL, or with select(…).
    """
    _check_fields(query, MAX_DEPTH)


def _check_fields(piece: Any, room: int) -> None:
    """Every field of a piece whose own kind is right."""
    if room == 0:
        raise QueryRefused("this is nested too deeply", "ask something simpler")
    kind: Any = type(piece)
    for name, hint in _field_types(kind):
        value = getattr(piece, name)
        if not _fits_type(value, hint, room):
            raise QueryRefused(
                f"the {name} of {type(piece).__name__} is {_describe_value(value)}, which does not belong there",
                "ask in SQL, or with select(…)",
            )


@lru_cache(maxsize=64)
def _field_types(kind: Any) -> tuple[tuple[str, Any], ...]:
    hints = get_type_hints(kind)
    return tuple((field.name, hints[field.name]) for field in fields(kind))


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
    if hint is not Fraction and not isinstance(value, hint):  # of numbers, `check` has more to say
        return False
    if is_dataclass(value):
        _check_fields(value, room - 1)
    return True


def _describe_value(value: Any) -> str:
    name = type(value).__name__
    return "missing" if value is None else f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
