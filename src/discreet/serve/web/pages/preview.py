"""A query tried on invented rows, with the error bars that its answer would have: what an analyst sees before paying.

The rows come from the policy and a seed (`remote.invented`), the half-widths from the quote: both are public, so the preview
is free and reads no row of any table. Values are exact over the invented rows, which hold no person; each has the
interval that the paid noise would give it.

The web process has no engine, so this module computes counts, sums and averages itself, over declared keys. A query with
anything else has no preview, only its quote.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime
from fractions import Fraction
from functools import lru_cache
from math import floor, isfinite
from typing import Any

from discreet.errors import DiscreetError
from discreet.query import ast
from discreet.query.aggregates import CountRows, CountUnits, CountValues, Mean, Sum
from discreet.query.answer import Answer, IntervalOptions
from discreet.query.calibrate import Measurement
from discreet.query.estimates import Estimate, is_close
from discreet.query.schema import Key, Table
from discreet.remote.invented import invent_columns
from discreet.serve.quoting import Priced

MAX_ROWS, SEED, MAX_GROUPS = 5_000, 1, 60
Row = dict[str, Any]
Evaluate = Callable[[Row], Any]


class NoPreview(Exception):
    """A query that is not tried here."""


@lru_cache(maxsize=50)
def _invent_rows(policy: str, rows: int) -> tuple[Row, ...]:
    from discreet.query.policy import read_policy

    columns = {name: column.to_list() for name, column in invent_columns(read_policy(policy), rows, SEED).items()}
    return tuple(dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))


def invent_rows(policy: str, rows: int) -> tuple[Row, ...]:
    """Return invented rows of a policy."""
    return _invent_rows(policy, rows)


def preview(priced: Priced, policy: str, rows_at_most: int | None, confidence: float) -> Answer | None:
    """Return the answer that a query would have over invented rows; None if it is not tried here."""
    try:
        return _preview(priced, _invent_rows(policy, min(rows_at_most or MAX_ROWS, MAX_ROWS)), confidence)
    except (NoPreview, DiscreetError):
        return None


def _preview(priced: Priced, rows: tuple[Row, ...], confidence: float) -> Answer:
    measurement = priced.calibrated.measurement
    bounded = measurement.bounded
    query, table = bounded.query, bounded.table
    if bounded.keys is None or query.joins or len(bounded.keys) > MAX_GROUPS:
        raise NoPreview
    where = None if query.where is None else _compile_condition(query.where)
    grouping = [_compile(group.value) for group in query.groups]
    members: dict[tuple[Key, ...], list[Row]] = {keys: [] for keys in bounded.keys}
    for row in rows:
        if where is None or where(row):
            found = members.get(tuple(each(row) for each in grouping))
            if found is not None:
                found.append(row)
    columns = [_estimate(name, each, measurement, confidence, table) for name, each in query.aggregates]
    answer = Answer(
        groups=tuple(group.name for group in query.groups), schema=bounded.columns,
        rows=tuple((keys, tuple(estimate(found) for estimate in columns)) for keys, found in members.items()),
        intervals=IntervalOptions(confidence), event=measurement.event,
        explanation=f"On {len(rows):,} invented rows; the intervals are those that the answer would have.", tainted=False,
    )  # fmt: skip
    return answer if query.view == ast.WHOLE_ANSWER else replace(answer.apply_view(query.view))


def _estimate(
    name: str, aggregate: ast.Aggregate, measurement: Measurement, confidence: float, table: Table
) -> Callable[[list[Row]], Estimate]:
    """Return how a column is computed of the rows of a group."""

    def error(size: int) -> float:
        return max(value for _, value in measurement.predict(name, confidence, (max(size, 1),)).half_widths)

    match aggregate:
        case CountRows():
            return lambda rows: _count(len(rows), error(1))
        case CountUnits():
            return lambda rows: _count(len({tuple(row[each] for each in table.unit_columns) for row in rows}), error(1))
        case CountValues(value=value):
            get = _compile(value)
            return lambda rows: _count(sum(get(row) is not None for row in rows), error(1))
        case Sum(value=value):
            get = _compile(value)
            return lambda rows: _number(sum(get(row) or 0 for row in rows), error(len(rows)))
        case Mean(value=value):
            get = _compile(value)

            def average(rows: list[Row]) -> Estimate:
                values = [each for each in map(get, rows) if each is not None]
                return _number(sum(values) / len(values) if values else 0.0, error(len(values)))

            return average
    raise NoPreview


def _count(count: int, error: float) -> Estimate:
    half = round(error)
    return Estimate(count, count - half, count + half, is_close(count, count - half, count + half))


def _number(value: float, error: float) -> Estimate:
    if not isfinite(error):
        raise NoPreview
    return Estimate(value, value - error, value + error, is_close(value, value - error, value + error))


# -- expressions over a row. NULL is None, and a comparison with it is unknown ----------------------------------------------


def _compile(value: Any) -> Evaluate:
    match value:
        case ast.Ref(column=name):
            return lambda row: row[name] if name in row else _refuse()
        case ast.Number(value=number):
            constant = float(number)
            return lambda row: constant
        case ast.Constant(value=key):
            return lambda row: key
        case ast.Plus(left=left, right=right):
            return _combine(left, right, lambda a, b: a + b)
        case ast.Minus(left=left, right=right):
            return _combine(left, right, lambda a, b: a - b)
        case ast.Times(left=left, right=right):
            return _combine(left, right, lambda a, b: a * b)
        case ast.Divide(value=inner, divisor=divisor):
            return _apply(inner, lambda a: a / float(divisor))
        case ast.Bin(value=inner, width=width):
            return _apply(inner, lambda a: floor(a / float(width)))
        case ast.Abs(value=inner):
            return _apply(inner, abs)
        case ast.DatePart(part=part, column=column):
            return _apply(column, lambda moment: _take_part(part, moment))
        case ast.DateTrunc(period=period, column=column):
            return _apply(column, lambda moment: _truncate(period, moment))
        case ast.Case(branches=branches, default=default):
            compiled = [(_compile_condition(condition), _compile(each)) for condition, each in branches]
            otherwise = (lambda row: None) if default is None else _compile(default)
            return lambda row: next((get for holds, get in compiled if holds(row)), otherwise)(row)
    raise NoPreview


def _refuse() -> Any:
    raise NoPreview


def _combine(left: Any, right: Any, function: Callable[[Any, Any], Any]) -> Evaluate:
    first, second = _compile(left), _compile(right)

    def run(row: Row) -> Any:
        a, b = first(row), second(row)
        return None if a is None or b is None else function(a, b)

    return run


def _apply(inner: Any, function: Callable[[Any], Any]) -> Evaluate:
    get = _compile(inner)

    def run(row: Row) -> Any:
        value = get(row)
        return None if value is None else function(value)

    return run


def _take_part(part: ast.Part, moment: date) -> int:
    match part:
        case ast.Part.QUARTER:
            return (moment.month + 2) // 3
        case ast.Part.ISODOW:
            return moment.isoweekday()
        case ast.Part.HOUR:
            return moment.hour if isinstance(moment, datetime) else 0
    return int(getattr(moment, part.value))


def _truncate(period: ast.Period, moment: date) -> date:
    day = date(moment.year, moment.month, moment.day)
    match period:
        case ast.Period.YEAR:
            return day.replace(month=1, day=1)
        case ast.Period.QUARTER:
            return day.replace(month=3 * ((day.month - 1) // 3) + 1, day=1)
        case ast.Period.MONTH:
            return day.replace(day=1)
        case ast.Period.WEEK:
            return date.fromordinal(day.toordinal() - day.weekday())
    return day


_ORDERS: dict[ast.Order, Callable[[Any, Any], bool]] = {
    ast.Order.EQUAL: lambda a, b: bool(a == b),
    ast.Order.NOT_EQUAL: lambda a, b: bool(a != b),
    ast.Order.LESS: lambda a, b: bool(a < b),
    ast.Order.AT_MOST: lambda a, b: bool(a <= b),
    ast.Order.MORE: lambda a, b: bool(a > b),
    ast.Order.AT_LEAST: lambda a, b: bool(a >= b),
}


def _compile_condition(condition: Any) -> Callable[[Row], bool | None]:
    """Return a condition over a row: true, false, or unknown, which is None, as in SQL."""
    match condition:
        case ast.Compare(order=order, left=left, right=right):
            return _combine(left, right, lambda a, b: _compare(order, a, b))
        case ast.OneOf(value=value, among=among):
            listed = {_to_plain(each.value) for each in among}
            return _apply(value, lambda found: found in listed)
        case ast.Missing(value=value):
            get = _compile(value)
            return lambda row: get(row) is None
        case ast.All(parts=parts):
            return _join([_compile_condition(each) for each in parts], False)
        case ast.Any(parts=parts):
            return _join([_compile_condition(each) for each in parts], True)
        case ast.Not(part=part):
            inner = _compile_condition(part)
            return lambda row: None if (found := inner(row)) is None else not found
    raise NoPreview


def _join(parts: list[Callable[[Row], bool | None]], deciding: bool) -> Callable[[Row], bool | None]:
    """Return AND, which False decides, or OR, which True decides."""

    def run(row: Row) -> bool | None:
        found = [part(row) for part in parts]
        return deciding if deciding in found else None if None in found else not deciding

    return run


def _compare(order: ast.Order, a: Any, b: Any) -> bool:
    try:
        return _ORDERS[order](a, b)
    except TypeError:
        raise NoPreview from None


def _to_plain(value: Any) -> Any:
    return float(value) if isinstance(value, Fraction) else value
