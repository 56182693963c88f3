"""A plan, asked again in Python: every piece of a question through the builder."""

from functools import reduce
from operator import and_, eq, ge, gt, le, lt, ne, or_
from typing import Any

from discreet import col, count, count_units, select, when
from discreet.query import plan
from discreet.query.expression import Condition, Expression, to_expression
from discreet.query.frame import Select

ORDERS = {
    plan.Order.EQUAL: eq, plan.Order.NOT_EQUAL: ne, plan.Order.LESS: lt, plan.Order.AT_MOST: le, plan.Order.MORE: gt,
    plan.Order.AT_LEAST: ge,
}  # fmt: skip


def value(node: plan.Value) -> Any:
    """A number stays a number, so that both sides of an operator are tried."""
    match node:
        case plan.Ref(column=name):
            return col(name)
        case plan.Number(value=number):
            return number
        case plan.Bin(value=inner, width=width):
            return lifted(inner) // width
        case plan.Case(branches=branches, default=default):
            (first, then), *rest = branches
            chosen = when(condition(first)).then(value(then))
            for each, branch in rest:
                chosen = chosen.when(condition(each)).then(value(branch))
            return chosen if default is None else chosen.otherwise(value(default))
    left, right = value(node.left), value(node.right)
    if not isinstance(left, Expression) and not isinstance(right, Expression):
        left = to_expression(left)
    return {plan.Plus: lambda: left + right, plan.Minus: lambda: left - right, plan.Times: lambda: left * right}[
        type(node)
    ]()


def lifted(node: plan.Value) -> Expression:
    return to_expression(value(node))


def condition(node: plan.Condition) -> Condition:
    match node:
        case plan.Compare(order=order, left=left, right=plan.Constant(value=constant)):
            found = ORDERS[order](lifted(left), constant)
        case plan.Compare(order=order, left=left, right=right):
            found = ORDERS[order](lifted(left), value(right))
        case plan.OneOf(value=ref, among=among):
            found = col(ref.column).is_in([each.value for each in among])
        case plan.Missing(value=ref):
            found = col(ref.column).is_null()
        case plan.All(parts=parts):
            found = reduce(and_, map(condition, parts))
        case plan.Any(parts=parts):
            found = reduce(or_, map(condition, parts))
        case plan.Not(part=part):
            found = ~condition(part)
    assert isinstance(found, Condition)
    return found


def aggregate(node: plan.Aggregate) -> Any:
    match node:
        case plan.CountRows():
            return count()
        case plan.CountUnits():
            return count_units()
        case plan.Variance(value=inner, root=root):
            return lifted(inner).std() if root else lifted(inner).variance()
        case plan.Quantile(value=inner, q=q):
            named = {plan.MIN_QUANTILE: lifted(inner).min, plan.MAX_QUANTILE: lifted(inner).max}
            return named[q]() if q in named else lifted(inner).quantile(q)
        case plan.Histogram(value=inner, edges=edges):
            return lifted(inner).histogram(*edges)
    found = lifted(node.value)
    return {plan.CountValues: found.count, plan.Sum: found.sum, plan.Mean: found.mean}[type(node)]()


def rebuilt(query: plan.Query) -> Select:
    """The same question, written in Python."""
    asked = select(**{name: aggregate(each) for name, each in query.aggregates})
    for join in query.joins:
        asked = asked.join(join.table, on=(join.here, join.there), left=join.left)
    if query.where is not None:
        asked = asked.where(condition(query.where))
    for group in query.groups:
        keys = None if group.keys is None else {group.name: group.keys}
        asked = asked.group_by(keys=keys, **{group.name: lifted(group.value)})
    return asked
