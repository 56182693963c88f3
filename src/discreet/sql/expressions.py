"""Expressions and conditions of a query as engine SQL: total functions on bounded integers.

The generator writes constants from values, never from the analyst's text. NaN is NULL, and both are decided before any
clipping: LEAST(60, NULL) is 60 in some engines, and NaN sorts above everything. Clipping a column to its bounds and rounding
it to the grid make an integer of every value, so that sums are exact. A date is clipped to its bounds, or to the years 1 to
9999, and an infinite one is NULL, before any function of it: DATE_TRUNC raises on others in some engines, and YEAR(infinity)
differs. Timestamps are in UTC and have no zone, so no function of them depends on a session's zone.

No operand is written twice, so that a statement is no longer than a constant times the query.

Nodes are not copied: each is made for the place that it is put in.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from fractions import Fraction
from functools import reduce
from math import ceil, floor
from typing import assert_never

from sqlglot import exp

from discreet.query import ast
from discreet.query.grid import (
    FloorDivision,
    align,
    column_grid_range,
    floor_divisions_of,
    grid_range_of,
    is_compared_unclipped,
    reached_values,
)
from discreet.query.schema import Kind, Table
from discreet.query.validate import kind_of
from discreet.sql.dialects import (
    SQL,
    Dialect,
    bigint_literal,
    cast,
    clip,
    double_literal,
    int_literal,
    key_literal,
    source_column,
)

LONG_CONDITION = 100
"""From so many conditions joined by AND on, they are wrapped."""

# -- expressions and conditions --------------------------------------------------------------------------------------------

_ORDERS: dict[ast.Order, type[exp.Binary]] = {
    ast.Order.EQUAL: exp.EQ,
    ast.Order.NOT_EQUAL: exp.NEQ,
    ast.Order.LESS: exp.LT,
    ast.Order.AT_MOST: exp.LTE,
    ast.Order.MORE: exp.GT,
    ast.Order.AT_LEAST: exp.GTE,
}


@dataclass(frozen=True, slots=True)
class Lowering:
    """Lowers the expressions of one table for one engine."""

    table: Table
    dialect: Dialect

    def lower_column(self, name: str) -> SQL:
        """A column as it is, but with NULL for NaN."""
        if self.table.columns[name].kind is not Kind.REAL:
            return source_column(name)
        wide = cast(source_column(name), exp.DType.DOUBLE)
        return exp.Case(ifs=[exp.If(this=self.dialect.is_nan(wide.copy()), true=exp.Null())], default=wide)

    def lower_value(self, value: ast.Value) -> SQL:
        """A numeric expression in grid steps, as BIGINT; NULL where something in it is missing."""
        match value:
            case ast.Ref(column=name):
                return self._lower_clipped(name)
            case ast.Number():
                return bigint_literal(grid_range_of(value, self.table).lower)
            case ast.Plus(left=left, right=right) | ast.Minus(left=left, right=right):
                a, b = self._lower_aligned(left, right)
                return exp.Paren(this=(exp.Add if isinstance(value, ast.Plus) else exp.Sub)(this=a, expression=b))
            case ast.Times(left=left, right=right):
                return exp.Paren(this=exp.Mul(this=self.lower_value(left), expression=self.lower_value(right)))
            case ast.Bin(value=inner) | ast.Divide(value=inner) | ast.Round(value=inner):
                return reduce(self._lower_division, floor_divisions_of(value, self.table), self.lower_value(inner))
            case ast.Case(branches=branches, default=default):
                finest = grid_range_of(value, self.table).exponent
                ifs = [exp.If(this=self.lower_condition(c), true=self._lower_in_grid(v, finest)) for c, v in branches]
                return exp.Case(ifs=ifs, default=exp.Null() if default is None else self._lower_in_grid(default, finest))
            case ast.Abs(value=inner):
                return exp.Abs(this=self.lower_value(inner))
            case ast.Coalesce(values=values):
                first, *rest = self._lower_all(reached_values(values), grid_range_of(value, self.table).exponent)
                return exp.Coalesce(this=first, expressions=rest) if rest else first
            case ast.Extreme(values=values, greatest=greatest):
                parts = self._lower_all(values, grid_range_of(value, self.table).exponent)
                name = "GREATEST" if greatest else "LEAST"  # all engines pass over NULL
                return exp.Anonymous(this=name, expressions=parts) if len(parts) > 1 else parts[0]
            case ast.NullIf():
                return self._lower_null_if(value)
            case ast.DatePart(part=part, column=ref):
                return self._lower_part(part, ref)
            case _:
                assert_never(value)

    def _lower_clipped(self, name: str) -> SQL:
        """A column clipped to its bounds and rounded to the grid."""
        declared = self.table.columns[name]
        steps = column_grid_range(name, declared)
        if declared.kind is Kind.BOOLEAN:
            no = exp.If(this=exp.Not(this=source_column(name)), true=bigint_literal(0))
            return exp.Case(ifs=[exp.If(this=source_column(name), true=bigint_literal(1)), no])
        if declared.kind is Kind.INTEGER:
            clipped = clip(source_column(name), int_literal(steps.lower), int_literal(steps.upper))
            missing = exp.If(this=exp.Is(this=source_column(name), expression=exp.Null()), true=exp.Null())
            return exp.Case(ifs=[missing], default=cast(clipped, exp.DType.BIGINT))
        assert declared.number_bounds is not None
        lower, upper = declared.number_bounds
        wide = cast(source_column(name), exp.DType.DOUBLE)
        inside = clip(wide, double_literal(lower), double_literal(upper))
        inside = inside if steps.grid <= 1 else self.dialect.avoid_underflow(inside)
        scaled = exp.Mul(this=inside, expression=double_literal(1 / steps.grid))
        rounded = exp.Floor(this=exp.Add(this=scaled, expression=double_literal(Fraction(1, 2))))
        nearest: SQL = cast(rounded, exp.DType.BIGINT)
        # Rounding to the grid is monotone in every step, so its two ends decide whether it can leave the range.
        low, high = (floor(float(end) * float(1 / steps.grid) + 0.5) for end in (lower, upper))
        if low < steps.lower or high > steps.upper:
            nearest = clip(nearest, int_literal(steps.lower), int_literal(steps.upper))
        known = exp.Not(this=self.dialect.is_nan(wide.copy()))  # unknown where the column is missing
        return exp.Case(ifs=[exp.If(this=known, true=nearest)])

    def _lower_in_grid(self, value: ast.Value, exponent: int) -> SQL:
        """A value in steps of 2^exponent, which are no coarser than its own."""
        steps = grid_range_of(value, self.table)
        factor = 1 << (steps.exponent - exponent)
        if isinstance(value, ast.Number):
            return bigint_literal(steps.lower * factor)
        inner = self.lower_value(value)
        if steps.magnitude == 0:  # fits any grid, while the factor may fit no literal
            return inner
        return inner if factor == 1 else exp.Paren(this=exp.Mul(this=inner, expression=int_literal(factor)))

    def _lower_aligned(self, left: ast.Value, right: ast.Value) -> tuple[SQL, SQL]:
        a, _ = align(grid_range_of(left, self.table), grid_range_of(right, self.table))
        return self._lower_in_grid(left, a.exponent), self._lower_in_grid(right, a.exponent)

    def _lower_all(self, values: Sequence[ast.Value], exponent: int) -> list[SQL]:
        return [self._lower_in_grid(each, exponent) for each in values]

    def _lower_division(self, operand: SQL, division: FloorDivision) -> SQL:
        """⌊(n·times + plus)/divisor⌋ by a division of non-negative numbers, on which all engines agree."""
        scaled = exp.Mul(this=operand, expression=int_literal(division.times))
        if division.divisor == 1:
            return exp.Paren(this=scaled)
        first, divisor = division.result.lower, division.divisor
        above = exp.Paren(this=exp.Sub(this=scaled, expression=int_literal(first * divisor - division.plus)))
        return exp.Paren(this=exp.Add(this=self.dialect.divide(above, int_literal(divisor)), expression=int_literal(first)))

    def _lower_null_if(self, value: ast.NullIf) -> SQL:
        """NULL where both are equal. A plain column is compared with a number as it is, as everywhere, not clipped."""
        if is_compared_unclipped(value, self.table):
            equal = exp.If(this=self._lower_compare(ast.Order.EQUAL, value.value, value.other), true=exp.Null())
            return exp.Case(ifs=[equal], default=self.lower_value(value.value))
        a, b = self._lower_aligned(value.value, value.other)
        return exp.Nullif(this=a, expression=b)

    def _lower_moment(self, name: str) -> SQL:
        """A date or timestamp, clipped; NULL where it is infinite."""
        lower, upper = (key_literal(bound) for bound in self.table.columns[name].moment_bounds)
        known = exp.If(this=self.dialect.is_finite(source_column(name)), true=clip(source_column(name), lower, upper))
        return exp.Case(ifs=[known])

    def _lower_day(self, name: str) -> SQL:
        """The day of a date or timestamp, clipped; NULL where it is infinite."""
        moment = self._lower_moment(name)
        return moment if self.table.columns[name].kind is Kind.DATE else cast(moment, exp.DType.DATE)

    def _lower_part(self, part: ast.Part, ref: ast.Ref) -> SQL:
        moment = self._lower_moment(ref.column) if part is ast.Part.HOUR else self._lower_day(ref.column)
        name = self.dialect.isodow if part is ast.Part.ISODOW else part.value.upper()
        return cast(exp.Extract(this=exp.Var(this=name), expression=moment), exp.DType.BIGINT)

    def lower_key(self, value: ast.GroupValue) -> SQL:
        """A group key."""
        if isinstance(value, ast.DateTrunc):
            day = self._lower_day(value.column.column)
            return day if value.period is ast.Period.DAY else self.dialect.truncate(value.period.value, day)
        if not isinstance(value, ast.Ref):
            return self.lower_value(value)
        return read_key(source_column(value.column), self.table.columns[value.column].kind)

    def lower_presence(self, value: ast.Value) -> SQL:
        """NULL where a value is missing, else 0 for a column: counting needs no more, so that the column needs no bounds."""
        if not isinstance(value, ast.Ref):
            return self.lower_value(value)
        missing = exp.Is(this=exp.Paren(this=self.lower_column(value.column)), expression=exp.Null())
        return exp.Case(ifs=[exp.If(this=missing, true=exp.Null())], default=bigint_literal(0))

    def lower_where(self, condition: ast.Condition) -> SQL:
        """The condition of WHERE. A long list of conditions is wrapped: Spark would take it apart by a recursion of that
        depth."""
        passes = self.lower_condition(condition)
        long = isinstance(condition, ast.All) and len(condition.parts) > LONG_CONDITION
        return exp.Coalesce(this=passes, expressions=[exp.false()]) if long else passes

    def lower_condition(self, condition: ast.Condition) -> SQL:
        """True, false or NULL, as in SQL."""
        match condition:
            case ast.Compare(order=order, left=left, right=right):
                return exp.Paren(this=self._lower_compare(order, left, right))
            case ast.OneOf(value=left, among=among):
                return exp.Paren(this=self._lower_one_of(left, among))
            case ast.Missing(value=ast.Ref(column=name)):
                return exp.Paren(this=exp.Is(this=exp.Paren(this=self.lower_column(name)), expression=exp.Null()))
            case ast.Missing(value=inner):
                lowered = self.lower_key(inner) if isinstance(inner, ast.DateTrunc) else self.lower_value(inner)
                return exp.Paren(this=exp.Is(this=exp.Paren(this=lowered), expression=exp.Null()))
            case ast.Like(value=ref, pattern=pattern):
                return exp.Paren(this=exp.Like(this=source_column(ref.column), expression=key_literal(pattern)))
            case ast.All(parts=parts):
                return exp.Paren(this=exp.and_(*(self.lower_condition(part) for part in parts), copy=False))
            case ast.Any(parts=parts):
                return exp.Paren(this=exp.or_(*(self.lower_condition(part) for part in parts), copy=False))
            case ast.Not(part=part):
                return exp.Not(this=self.lower_condition(part))
            case _:
                assert_never(condition)

    def _lower_one_of(self, left: ast.Value | ast.DateTrunc, among: tuple[ast.Number | ast.Constant, ...]) -> SQL:
        """One flat list, however long: engines limit how deep an expression may be."""
        if not isinstance(left, ast.Ref | ast.DateTrunc):
            numbers = [each for each in among if isinstance(each, ast.Number)]
            finest = min(grid_range_of(each, self.table).exponent for each in (left, *numbers))
            return exp.In(this=self._lower_in_grid(left, finest), expressions=self._lower_all(numbers, finest))
        kind = kind_of(left, self.table)
        raw = exp.Paren(this=self.lower_column(left.column) if isinstance(left, ast.Ref) else self.lower_key(left))
        listed: list[SQL] = []
        for each in among:
            if isinstance(each, ast.Constant):
                listed.append(key_literal(each.value))
            elif kind is Kind.REAL:
                listed.append(double_literal(each.value))
            elif each.value.denominator == 1:  # no whole number equals a fraction
                listed.append(int_literal(int(each.value)))
        return exp.In(this=raw, expressions=listed) if listed else exp.NEQ(this=raw, expression=raw.copy())

    def _lower_compare(self, order: ast.Order, left: ast.Value | ast.DateTrunc, right: ast.Value | ast.Constant) -> SQL:
        if isinstance(left, ast.Ref) and isinstance(right, ast.Constant):
            return _ORDERS[order](this=source_column(left.column), expression=key_literal(right.value))
        if isinstance(left, ast.DateTrunc):
            assert isinstance(right, ast.Constant)
            return _ORDERS[order](this=self.lower_key(left), expression=key_literal(right.value))
        if isinstance(left, ast.Ref) and isinstance(right, ast.Number):
            return self._lower_compare_number(order, left, right.value)
        assert not isinstance(right, ast.Constant)
        a, b = self._lower_aligned(left, right)
        return _ORDERS[order](this=a, expression=b)

    def _lower_compare_number(self, order: ast.Order, ref: ast.Ref, number: Fraction) -> SQL:
        """A plain column against a constant: the value itself is compared, not the clipped one."""
        kind = self.table.columns[ref.column].kind
        if kind is Kind.REAL:
            return _ORDERS[order](this=exp.Paren(this=self.lower_column(ref.column)), expression=double_literal(number))
        if number.denominator == 1:
            return _ORDERS[order](this=source_column(ref.column), expression=int_literal(int(number)))
        if order in (ast.Order.EQUAL, ast.Order.NOT_EQUAL):  # never, or always; unknown where the column is missing
            same = exp.EQ if order is ast.Order.NOT_EQUAL else exp.NEQ
            return same(this=source_column(ref.column), expression=source_column(ref.column))
        up = order in (ast.Order.AT_LEAST, ast.Order.LESS)
        return _ORDERS[order](this=source_column(ref.column), expression=int_literal(ceil(number) if up else floor(number)))


def read_key(key: SQL, kind: Kind) -> SQL:
    """A column as a group key: a date that Python cannot hold (infinity, before the year 1) is missing."""
    if kind not in (Kind.DATE, Kind.TIMESTAMP):
        return key
    first, last = (date.min, date.max) if kind is Kind.DATE else (datetime.min, datetime.max)
    known = exp.Between(this=key, low=key_literal(first), high=key_literal(last))
    return exp.Case(ifs=[exp.If(this=known, true=key.copy())])
