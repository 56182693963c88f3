"""A question as SQL text, for people to read. The engine never sees it."""

from fractions import Fraction
from typing import assert_never

from discreet.query import plan


def written(query: plan.Query, unit: str = "unit") -> str:
    """The text of a question about a table with this unit.

    >>> older = plan.Compare(plan.Order.AT_LEAST, plan.Ref("age"), plan.Number(Fraction(18)))
    >>> written(plan.Query("people", (("n", plan.CountRows()),), older, (plan.Grouping("dept", plan.Ref("dept")),)))
    'SELECT dept, COUNT(*) AS n FROM people WHERE age >= 18 GROUP BY dept'
    """
    items = [_item(_value(group.value), group.name) for group in query.groups]
    items += [f"{_aggregate(aggregate, unit)} AS {_name(name)}" for name, aggregate in query.aggregates]
    joins = "".join(_join(join, query.table) for join in query.joins)
    where = "" if query.where is None else f" WHERE {_condition(query.where)}"
    groups = f" GROUP BY {', '.join(_value(group.value) for group in query.groups)}" if query.groups else ""
    return f"SELECT {', '.join(items)} FROM {_name(query.table)}{joins}{where}{groups}"


def _name(name: str) -> str:
    plain = name.isidentifier() and name.upper() not in ("TRUE", "FALSE", "NULL")
    return name if plain else '"' + name.replace('"', '""') + '"'


def _item(text: str, name: str) -> str:
    return text if text == _name(name) else f"{text} AS {_name(name)}"


def _join(join: plan.Join, table: str) -> str:
    here = _value(plan.Ref(join.here)) if "." in join.here else f"{_name(table)}.{_name(join.here)}"
    kind = "LEFT JOIN" if join.left else "JOIN"
    return f" {kind} {_name(join.table)} ON {here} = {_name(join.table)}.{_name(join.there)}"


def _number(number: Fraction) -> str:
    return str(number.numerator) if number.denominator == 1 else f"{float(number)!r}"


def _value(value: plan.Value) -> str:
    match value:
        case plan.Ref(column=column):
            return ".".join(_name(part) for part in column.split("."))
        case plan.Number(value=number):
            return _number(number)
        case plan.Plus(left=left, right=right):
            return f"({_value(left)} + {_value(right)})"
        case plan.Minus(left=left, right=right):
            return f"({_value(left)} - {_value(right)})"
        case plan.Times(left=left, right=right):
            return f"({_value(left)} * {_value(right)})"
        case plan.Bin(value=inner, width=width):
            return f"({_value(inner)} // {_number(Fraction(width))})"
        case plan.Case(branches=branches, default=default):
            whens = " ".join(f"WHEN {_condition(c)} THEN {_value(v)}" for c, v in branches)
            return f"CASE {whens}{'' if default is None else f' ELSE {_value(default)}'} END"
        case _:
            assert_never(value)


def _constant(constant: "plan.Value | plan.Constant") -> str:
    if not isinstance(constant, plan.Constant):
        return _value(constant)
    shown = constant.value
    return str(shown).upper() if isinstance(shown, bool) else "'" + str(shown).replace("'", "''") + "'"


def _condition(condition: plan.Condition) -> str:
    match condition:
        case plan.Compare(order=order, left=left, right=right):
            return f"{_value(left)} {order.value} {_constant(right)}"
        case plan.OneOf(value=ref, among=among):
            return f"{_value(ref)} IN ({', '.join(map(_constant, among))})"
        case plan.Missing(value=ref):
            return f"{_value(ref)} IS NULL"
        case plan.All(parts=parts):
            return "(" + " AND ".join(map(_condition, parts)) + ")"
        case plan.Any(parts=parts):
            return "(" + " OR ".join(map(_condition, parts)) + ")"
        case plan.Not(part=part):
            return f"NOT ({_condition(part)})"
        case _:
            assert_never(condition)


def _aggregate(aggregate: plan.Aggregate, unit: str) -> str:
    match aggregate:
        case plan.CountRows():
            return "COUNT(*)"
        case plan.CountUnits():
            return f"COUNT(DISTINCT {_name(unit)})"
        case plan.CountValues(value=value):
            return f"COUNT({_value(value)})"
        case plan.Sum(value=value):
            return f"SUM({_value(value)})"
        case plan.Mean(value=value):
            return f"AVG({_value(value)})"
        case plan.Variance(value=value, root=root):
            return f"{'STDDEV' if root else 'VARIANCE'}({_value(value)})"
        case plan.Quantile(value=value, q=q):
            return f"QUANTILE({_value(value)}, {_number(q)})"
        case plan.Histogram(value=value, edges=edges):
            return f"HISTOGRAM({', '.join([_value(value), *map(_number, edges)])})"
        case _:
            assert_never(aggregate)
