"""Whether a question is one that no row can make fail: names, kinds and room, all before anything is paid.

A question may come from a text or from Python; both pass through here, so that lowering it cannot meet a surprise.
"""

from collections import Counter
from dataclasses import fields, is_dataclass
from fractions import Fraction
from typing import assert_never

from discreet.errors import QueryRefused
from discreet.query import plan
from discreet.query.edges import MAX_CONSTANT, check_edges
from discreet.query.measures import build_histogram
from discreet.query.span import check_comparable, grid_range_of
from discreet.query.table import Kind, Table, accepts
from discreet.query.work import check_columns

MAX_DEPTH = 70  # a little more than the reader of SQL allows, which counts otherwise
MAX_BIN_WIDTH = 1 << 31
INTERVAL_SUFFIXES = ("_lower", "_upper", "_reliable")
"""In a table, a column n of the answer has n_lower, n_upper and n_reliable beside it."""


def check_query(query: plan.Query, table: Table) -> None:
    """Refuse what is not a total function of every possible row."""
    _check_structure(query, table)
    for _, aggregate in query.aggregates:
        match aggregate:
            case plan.CountRows() | plan.CountUnits():
                pass
            case plan.CountValues(value=plan.Ref() as ref):
                check_ref(ref, table)  # whether it is missing can be seen without bounds
            case plan.Quantile(value=value, q=q):
                check_value(value, table)
                if not isinstance(q, Fraction) or not 0 < q < 1 or q.denominator > MAX_CONSTANT:
                    raise QueryRefused("a quantile takes a share between 0 and 1", "write QUANTILE(column, 0.9)")
            case plan.Histogram(value=value, edges=edges):
                check_value(build_histogram(value, check_edges(edges)).cell, table)  # a plain column needs no bounds
            case _:
                check_value(aggregate.value, table)
    for group in query.groups:
        check_ref(group.value, table) if isinstance(group.value, plan.Ref) else check_value(group.value, table)
    if query.where is not None:
        check_condition(query.where, table)


def _check_structure(query: plan.Query, table: Table) -> None:
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
        cells, parts = isinstance(aggregate, plan.Histogram), [f"{name}{end}" for end in INTERVAL_SUFFIXES]
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
        case plan.Number(value=number):
            if not isinstance(number, Fraction) or abs(number) > MAX_CONSTANT or number.denominator > MAX_CONSTANT:
                raise QueryRefused(
                    "this number is too large or too fine", "keep constants below 10^15, with at most 15 decimals"
                )
        case plan.Bin(value=value, width=width):
            if isinstance(width, bool) or not isinstance(width, int | Fraction) or not 0 < width < MAX_BIN_WIDTH:
                raise QueryRefused("a bin has a width above 0", "write column // 10")
            _check_constants(value, room - 1)
        case plan.OneOf(among=()) | plan.All(parts=()) | plan.Any(parts=()) | plan.Case(branches=()):
            raise QueryRefused("a list of conditions or constants is empty", "leave it out")
        case tuple():
            for part in piece:
                _check_constants(part, room)
        case plan.Histogram(value=value):
            _check_constants(value, room - 1)
        case _ if is_dataclass(piece):
            for field in fields(piece):
                _check_constants(getattr(piece, field.name), room - 1)


def check_ref(ref: plan.Ref, table: Table) -> None:
    """Refuse a column that is not declared."""
    if ref.column not in table.columns:
        raise QueryRefused(f"{ref.column} is not declared", f"take one of {', '.join(table.columns)}")


def check_value(value: plan.Value, table: Table) -> None:
    """Refuse a value without bounds or without room, and conditions inside it that are no better."""
    _check_names(value, table)
    grid_range_of(value, table)  # of every part of it too, once


def _check_names(value: plan.Value, table: Table) -> None:
    match value:
        case plan.Ref():
            check_ref(value, table)
        case plan.Number():
            pass
        case plan.Plus(left=left, right=right) | plan.Minus(left=left, right=right) | plan.Times(left=left, right=right):
            _check_names(left, table)
            _check_names(right, table)
        case plan.Bin(value=inner):
            _check_names(inner, table)
        case plan.Case(branches=branches, default=default):
            for condition, branch in branches:
                check_condition(condition, table)
                _check_names(branch, table)
            if default is not None:
                _check_names(default, table)
        case _:
            assert_never(value)


def check_condition(condition: plan.Condition, table: Table) -> None:
    """Refuse a comparison of unlike things."""
    match condition:
        case plan.Compare(left=left, right=right):
            _check_compare(left, right, table)
        case plan.OneOf(value=ref, among=among):
            for constant in among:
                _check_compare(ref, constant, table)
        case plan.Missing(value=ref):
            check_ref(ref, table)
        case plan.All(parts=parts) | plan.Any(parts=parts):
            for part in parts:
                check_condition(part, table)
        case plan.Not(part=part):
            check_condition(part, table)
        case _:
            assert_never(condition)


def _check_compare(left: plan.Value, right: plan.Value | plan.Constant, table: Table) -> None:
    if isinstance(left, plan.Ref) and isinstance(right, plan.Constant | plan.Number):
        check_ref(left, table)
        kind = table.columns[left.column].kind
        if isinstance(right, plan.Number) and kind in (Kind.INTEGER, Kind.REAL):
            return
        if isinstance(right, plan.Number) or not accepts(kind, right.value):
            raise QueryRefused(f"this is not a {kind.value}, which {left.column} holds", "compare like with like")
        return
    if isinstance(right, plan.Constant):
        raise QueryRefused("a text, date or truth value is compared with a column only", "name the column")
    check_value(left, table)
    check_value(right, table)
    check_comparable(left, right, table)
