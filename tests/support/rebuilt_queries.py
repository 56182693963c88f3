"""A query, written again in Python: every part of it through the builder."""

from functools import reduce
from operator import and_, eq, ge, gt, le, lt, ne, or_
from typing import Any

from discreet import col, count, count_units, select, when
from discreet.query import aggregates, ast
from discreet.query.builder import Condition, Expression, Operand, Select, to_expression

ORDERS = {
    ast.Order.EQUAL: eq, ast.Order.NOT_EQUAL: ne, ast.Order.LESS: lt, ast.Order.AT_MOST: le, ast.Order.MORE: gt,
    ast.Order.AT_LEAST: ge,
}  # fmt: skip


def value(node: ast.Value) -> Any:
    """A number stays a number, so that both sides of an operator are tried."""
    match node:
        case ast.Ref(column=name):
            return col(name)
        case ast.Number(value=number):
            return number
        case ast.Bin(value=inner, width=width):
            return lifted(inner) // width
        case ast.Case(branches=branches, default=default):
            (first, then), *rest = branches
            chosen = when(condition(first)).then(value(then))
            for each, branch in rest:
                chosen = chosen.when(condition(each)).then(value(branch))
            return chosen if default is None else chosen.otherwise(value(default))
        case ast.Divide(value=inner, divisor=divisor):
            return lifted(inner) / divisor
        case ast.Round(value=inner, rounding=rounding, digits=digits):
            found = lifted(inner)
            return {
                ast.Rounding.NEAREST: lambda: found.round(digits),
                ast.Rounding.DOWN: found.floor,
                ast.Rounding.UP: found.ceil,
            }[rounding]()
        case ast.Abs(value=inner):
            return abs(lifted(inner))
        case ast.Coalesce(values=(first, *rest)):
            return lifted(first).coalesce(*map(value, rest))
        case ast.Extreme(values=(first, *rest), greatest=greatest):
            found = lifted(first)
            return (found.greatest if greatest else found.least)(*map(value, rest))
        case ast.NullIf(value=inner, other=other):
            return lifted(inner).null_if(value(other))
        case ast.DatePart(part=part, column=ref):
            return getattr(col(ref.column), part.value)()
    left, right = value(node.left), value(node.right)
    if not isinstance(left, Expression) and not isinstance(right, Expression):
        left = to_expression(left)
    return {ast.Plus: lambda: left + right, ast.Minus: lambda: left - right, ast.Times: lambda: left * right}[type(node)]()


def lifted(node: ast.Value) -> Expression:
    return to_expression(value(node))


def operand(node: ast.Value | ast.DateTrunc) -> Operand:
    """What can be compared, grouped by or counted."""
    return col(node.column.column).date_trunc(node.period.value) if isinstance(node, ast.DateTrunc) else lifted(node)


def condition(node: ast.Condition) -> Condition:
    match node:
        case ast.Compare(order=order, left=left, right=ast.Constant(value=constant)):
            found = ORDERS[order](operand(left), constant)
        case ast.Compare(order=order, left=left, right=right):
            found = ORDERS[order](lifted(left), value(right))
        case ast.OneOf(value=ref, among=among):
            found = operand(ref).is_in([each.value for each in among])
        case ast.Missing(value=inner):
            found = operand(inner).is_null()
        case ast.Like(value=ref, pattern=pattern):
            found = col(ref.column).like(pattern)
        case ast.All(parts=parts):
            found = reduce(and_, map(condition, parts))
        case ast.Any(parts=parts):
            found = reduce(or_, map(condition, parts))
        case ast.Not(part=part):
            found = ~condition(part)
    assert isinstance(found, Condition)
    return found


def aggregate(node: ast.Aggregate) -> Any:
    match node:
        case aggregates.CountRows():
            return count()
        case aggregates.CountUnits():
            return count_units()
        case aggregates.CountDistinct(value=inner):
            return operand(inner).count_distinct()
        case aggregates.Variance(value=inner, root=root):
            return lifted(inner).std() if root else lifted(inner).variance()
        case aggregates.Covariance(left=left, right=right):
            return lifted(left).covariance(value(right))
        case aggregates.Correlation(left=left, right=right):
            return lifted(left).correlation(value(right))
        case aggregates.Quantile(value=inner, q=q):
            named = {aggregates.MIN_QUANTILE: lifted(inner).min, aggregates.MAX_QUANTILE: lifted(inner).max}
            return named[q]() if q in named else lifted(inner).quantile(q)
        case aggregates.Histogram(value=inner, edges=edges):
            return lifted(inner).histogram(*edges)
    found = lifted(node.value)
    return {aggregates.CountValues: found.count, aggregates.Sum: found.sum, aggregates.Mean: found.mean}[type(node)]()


def rebuilt(query: ast.Query) -> Select:
    """The same query, written in Python."""
    built = select(**{name: aggregate(each) for name, each in query.aggregates})
    for join in query.joins:
        built = built.join(join.table, on=(join.here, join.there), left=join.left)
    if query.where is not None:
        built = built.where(condition(query.where))
    for group in query.groups:
        keys = None if group.keys is None else {group.name: group.keys}
        built = built.group_by(keys=keys, **{group.name: operand(group.value)})
    return built.grouping_sets(*([query.groups[i].name for i in margin] for margin in query.margins))
