"""Whether a question is one that no row can make fail: names, kinds and room, all before anything is paid.

A question may come from a text or from Python; both pass through here, so that lowering it cannot meet a surprise.
"""

from typing import assert_never

from discreet.errors import QuestionRefused
from discreet.query import plan
from discreet.query.span import comparable, span_of
from discreet.query.table import Kind, Table, holds


def check(query: plan.Query, table: Table) -> None:
    """Refuse what is not a total function of every possible row."""
    for _, aggregate in query.aggregates:
        match aggregate:
            case plan.CountRows() | plan.CountUnits():
                pass
            case plan.CountValues(value=plan.Ref() as ref):
                check_ref(ref, table)  # whether it is missing can be seen without bounds
            case _:
                check_value(aggregate.value, table)
    for group in query.groups:
        check_ref(group.value, table) if isinstance(group.value, plan.Ref) else check_value(group.value, table)
    if query.where is not None:
        check_condition(query.where, table)


def check_ref(ref: plan.Ref, table: Table) -> None:
    """Refuse a column that is not declared."""
    if ref.column not in table.columns:
        raise QuestionRefused(f"{ref.column} is not declared", f"take one of {', '.join(table.columns)}")


def check_value(value: plan.Value, table: Table) -> None:
    """Refuse a value without bounds or without room, and conditions inside it that are no better."""
    match value:
        case plan.Ref():
            check_ref(value, table)
        case plan.Number():
            pass
        case plan.Plus(left=left, right=right) | plan.Minus(left=left, right=right) | plan.Times(left=left, right=right):
            check_value(left, table)
            check_value(right, table)
        case plan.Bin(value=inner):
            check_value(inner, table)
        case plan.Case(branches=branches, default=default):
            for condition, branch in branches:
                check_condition(condition, table)
                check_value(branch, table)
            if default is not None:
                check_value(default, table)
        case _:
            assert_never(value)
    span_of(value, table)


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
        if isinstance(right, plan.Number) or not holds(kind, right.value):
            raise QuestionRefused(f"this is not a {kind.value}, which {left.column} holds", "compare like with like")
        return
    if isinstance(right, plan.Constant):
        raise QuestionRefused("a text, date or truth value is compared with a column only", "name the column")
    check_value(left, table)
    check_value(right, table)
    comparable(left, right, table)
