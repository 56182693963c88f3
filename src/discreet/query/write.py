"""A question as SQL text, for people to read. The engine never sees it."""

from fractions import Fraction
from typing import assert_never

from discreet.query import plan


def to_sql(query: plan.Query, unit: str = "unit") -> str:
    """The text of a question about a table with this unit.

    >>> older = plan.Compare(plan.Order.AT_LEAST, plan.Ref("age"), plan.Number(Fraction(18)))
    >>> to_sql(plan.Query("people", (("n", plan.CountRows()),), older, (plan.Grouping("dept", plan.Ref("dept")),)))
    'SELECT dept, COUNT(*) AS n FROM people WHERE age >= 18 GROUP BY dept'
    """
    items = [_format_item(_format_value(group.value), group.name) for group in query.groups]
    items += [f"{_format_aggregate(aggregate, unit)} AS {_quote_name(name)}" for name, aggregate in query.aggregates]
    joins = "".join(_format_join(join, query.table) for join in query.joins)
    where = "" if query.where is None else f" WHERE {_format_condition(query.where)}"
    groups = f" GROUP BY {', '.join(_format_value(group.value) for group in query.groups)}" if query.groups else ""
    return f"SELECT {', '.join(items)} FROM {_quote_name(query.table)}{joins}{where}{groups}"


def _quote_name(name: str) -> str:
    plain = name.isidentifier() and name.upper() not in ("TRUE", "FALSE", "NULL")
    return name if plain else '"' + name.replace('"', '""') + '"'


def _format_item(text: str, name: str) -> str:
    return text if text == _quote_name(name) else f"{text} AS {_quote_name(name)}"


def _format_join(join: plan.Join, table: str) -> str:
    here = _format_value(plan.Ref(join.here)) if "." in join.here else f"{_quote_name(table)}.{_quote_name(join.here)}"
    kind = "LEFT JOIN" if join.left else "JOIN"
    return f" {kind} {_quote_name(join.table)} ON {here} = {_quote_name(join.table)}.{_quote_name(join.there)}"


def _format_number(number: Fraction) -> str:
    return str(number.numerator) if number.denominator == 1 else f"{float(number)!r}"


def _format_value(value: plan.Value) -> str:
    match value:
        case plan.Ref(column=column):
            return ".".join(_quote_name(part) for part in column.split("."))
        case plan.Number(value=number):
            return _format_number(number)
        case plan.Plus(left=left, right=right):
            return f"({_format_value(left)} + {_format_value(right)})"
        case plan.Minus(left=left, right=right):
            return f"({_format_value(left)} - {_format_value(right)})"
        case plan.Times(left=left, right=right):
            return f"({_format_value(left)} * {_format_value(right)})"
        case plan.Bin(value=inner, width=width):
            return f"({_format_value(inner)} // {_format_number(Fraction(width))})"
        case plan.Case(branches=branches, default=default):
            whens = " ".join(f"WHEN {_format_condition(c)} THEN {_format_value(v)}" for c, v in branches)
            return f"CASE {whens}{'' if default is None else f' ELSE {_format_value(default)}'} END"
        case _:
            assert_never(value)


def _format_constant(constant: "plan.Value | plan.Constant") -> str:
    if not isinstance(constant, plan.Constant):
        return _format_value(constant)
    shown = constant.value
    return str(shown).upper() if isinstance(shown, bool) else "'" + str(shown).replace("'", "''") + "'"


def _format_condition(condition: plan.Condition) -> str:
    match condition:
        case plan.Compare(order=order, left=left, right=right):
            return f"{_format_value(left)} {order.value} {_format_constant(right)}"
        case plan.OneOf(value=ref, among=among):
            return f"{_format_value(ref)} IN ({', '.join(map(_format_constant, among))})"
        case plan.Missing(value=ref):
            return f"{_format_value(ref)} IS NULL"
        case plan.All(parts=parts):
            return "(" + " AND ".join(map(_format_condition, parts)) + ")"
        case plan.Any(parts=parts):
            return "(" + " OR ".join(map(_format_condition, parts)) + ")"
        case plan.Not(part=part):
            return f"NOT ({_format_condition(part)})"
        case _:
            assert_never(condition)


def _format_aggregate(aggregate: plan.Aggregate, unit: str) -> str:
    match aggregate:
        case plan.CountRows():
            return "COUNT(*)"
        case plan.CountUnits():
            return f"COUNT(DISTINCT {_quote_name(unit)})"
        case plan.CountValues(value=value):
            return f"COUNT({_format_value(value)})"
        case plan.Sum(value=value):
            return f"SUM({_format_value(value)})"
        case plan.Mean(value=value):
            return f"AVG({_format_value(value)})"
        case plan.Variance(value=value, root=root):
            return f"{'STDDEV' if root else 'VARIANCE'}({_format_value(value)})"
        case plan.Quantile(value=value, q=q):
            return f"QUANTILE({_format_value(value)}, {_format_number(q)})"
        case plan.Histogram(value=value, edges=edges):
            return f"HISTOGRAM({', '.join([_format_value(value), *map(_format_number, edges)])})"
        case _:
            assert_never(aggregate)
