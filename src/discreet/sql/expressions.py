"""Expressions and conditions of a question as engine SQL: total functions on bounded integers.

Constants are written by the generator from values, never from the analyst's text; NaN is NULL, and both are decided
before any clamp (LEAST(60, NULL) is 60 in some engines, and NaN sorts above everything).
"""

from dataclasses import dataclass
from datetime import date, datetime
from fractions import Fraction
from hashlib import sha256
from math import ceil, floor
from typing import assert_never

from sqlglot import exp

from discreet.query import ast
from discreet.query.grid import GridRange, align, bin_factors, column_grid_range, grid_range_of
from discreet.query.schema import Kind, Table
from discreet.sql.dialects import Dialect

SQL = exp.Expr


def int_literal(number: int) -> SQL:
    """A whole constant."""
    return exp.Literal.number(number) if number >= 0 else exp.Paren(this=exp.Neg(this=exp.Literal.number(-number)))


def alias(value: SQL, name: str) -> SQL:
    """A value under a name of our own. The value is not copied: it was made for this."""
    return exp.Alias(this=value, alias=exp.Identifier(this=name, quoted=True))


def cast(value: SQL, kind: exp.DType) -> SQL:
    """A value as another type; not copied either."""
    return exp.Cast(this=value, to=exp.DataType(this=kind))


def bigint_literal(number: int) -> SQL:
    """A whole constant of 64 bits: engines take a small literal for 32 bits, and its products overflow."""
    return cast(int_literal(number), exp.DType.BIGINT)


def double_literal(number: Fraction) -> SQL:
    """A constant double, by its shortest exact decimal text."""
    return cast(exp.Literal.string(repr(float(number))), exp.DType.DOUBLE)


SOURCE = "source"

MAX_NAME_BYTES = 63
"""Bytes of a name that every engine keeps."""

LONG_CONDITION = 100
"""Conditions joined by AND that engines are left to take apart."""

SATURATION_LIMIT = (1 << 63) - 1
"""Where totals are cut off."""


def column(name: str, table: str | None = None) -> exp.Column:
    """A column, always quoted, of this table if one is named."""
    at = None if table is None else exp.Identifier(this=table, quoted=True)
    return exp.Column(this=exp.Identifier(this=name, quoted=True), table=at)


def shorten_name(name: str) -> str:
    """A column's name inside a statement. PostgreSQL cuts names off after 63 bytes, where two long ones may become one.

    >>> shorten_name("depts.floor"), shorten_name("p" * 70)
    ('depts.floor', 'pppppppppppppppppppppppppppppppppppppppp d79ad4b575f328af')
    """
    held = name.encode(errors="surrogatepass")
    return name if len(held) <= MAX_NAME_BYTES else f"{held[:40].decode(errors='ignore')} {sha256(held).hexdigest()[:16]}"


def source_column(name: str) -> exp.Column:
    """A column of the source. Its table is said, so that no name of our own can be mistaken for it."""
    return column(shorten_name(name), SOURCE)


@dataclass(frozen=True, slots=True)
class Lowering:
    """Lowers the expressions of one table for one engine."""

    table: Table
    dialect: Dialect

    def lower_column(self, name: str) -> SQL:
        """A column as it is, except that NaN is NULL."""
        if self.table.columns[name].kind is not Kind.REAL:
            return source_column(name)
        wide = cast(source_column(name), exp.DType.DOUBLE)
        return exp.Case(ifs=[exp.If(this=self.dialect.is_nan(wide.copy()), true=exp.Null())], default=wide)

    def lower_value(self, value: ast.Value) -> SQL:
        """A numeric expression in grid steps, as BIGINT; NULL where something in it is missing."""
        match value:
            case ast.Ref(column=name):
                return self._lower_clamped(name)
            case ast.Number():
                return bigint_literal(grid_range_of(value, self.table).lower)
            case ast.Plus(left=left, right=right) | ast.Minus(left=left, right=right):
                a, b = self._lower_aligned(left, right)
                return exp.Paren(this=(exp.Add if isinstance(value, ast.Plus) else exp.Sub)(this=a, expression=b))
            case ast.Times(left=left, right=right):
                return exp.Paren(this=exp.Mul(this=self.lower_value(left), expression=self.lower_value(right)))
            case ast.Bin(value=inner, width=width):
                return self._lower_bin(inner, width)
            case ast.Case(branches=branches, default=default):
                finest = grid_range_of(value, self.table).exponent
                ifs = [exp.If(this=self.lower_condition(c), true=self._lower_in_grid(v, finest)) for c, v in branches]
                return exp.Case(ifs=ifs, default=exp.Null() if default is None else self._lower_in_grid(default, finest))
            case _:
                assert_never(value)

    def _lower_clamped(self, name: str) -> SQL:
        declared, span = self.table.columns[name], column_grid_range(name, self.table.columns[name])
        if declared.kind is Kind.BOOLEAN:
            no = exp.If(this=exp.Not(this=source_column(name)), true=bigint_literal(0))
            return exp.Case(ifs=[exp.If(this=source_column(name), true=bigint_literal(1)), no])
        if declared.kind is Kind.INTEGER:
            return self._unless_null(
                source_column(name), clamp(source_column(name), int_literal(span.lower), int_literal(span.upper))
            )
        assert declared.lower is not None
        assert declared.upper is not None
        wide = cast(source_column(name), exp.DType.DOUBLE)
        inside = clamp(wide, double_literal(declared.lower), double_literal(declared.upper))
        inside = inside if span.grid <= 1 else self.dialect.avoid_underflow(inside)
        scaled = exp.Add(
            this=exp.Mul(this=inside, expression=double_literal(1 / span.grid)), expression=double_literal(Fraction(1, 2))
        )
        nearest: SQL = cast(exp.Floor(this=scaled), exp.DType.BIGINT)
        if not _stays_inside(declared.lower, declared.upper, span):
            nearest = clamp(nearest, int_literal(span.lower), int_literal(span.upper))
        known = exp.Not(this=self.dialect.is_nan(wide.copy()))  # unknown where the column is missing
        return exp.Case(ifs=[exp.If(this=known, true=nearest)])

    def _unless_null(self, tested: SQL, value: SQL) -> SQL:
        wide = cast(value, exp.DType.BIGINT)
        return exp.Case(ifs=[exp.If(this=exp.Is(this=tested, expression=exp.Null()), true=exp.Null())], default=wide)

    def _lower_in_grid(self, value: ast.Value, exponent: int) -> SQL:
        span = grid_range_of(value, self.table)
        factor = 1 << (span.exponent - exponent)
        if isinstance(value, ast.Number):
            return bigint_literal(span.lower * factor)
        inner = self.lower_value(value)
        if span.magnitude == 0:  # has room in any grid, while the factor may have none
            return inner
        return inner if factor == 1 else exp.Paren(this=exp.Mul(this=inner, expression=int_literal(factor)))

    def _lower_aligned(self, left: ast.Value, right: ast.Value) -> tuple[SQL, SQL]:
        a, _ = align(grid_range_of(left, self.table), grid_range_of(right, self.table))
        return self._lower_in_grid(left, a.exponent), self._lower_in_grid(right, a.exponent)

    def _lower_bin(self, inner: ast.Value, width: int | Fraction) -> SQL:
        """⌊value/width⌋ with a division of non-negative numbers, on which all engines agree."""
        span: GridRange = grid_range_of(inner, self.table)
        times, divisor_steps = bin_factors(span, width)
        first = floor(Fraction(span.lower * times, divisor_steps))
        steps = exp.Mul(this=self.lower_value(inner), expression=int_literal(times))
        above = exp.Paren(this=exp.Sub(this=steps, expression=int_literal(first * divisor_steps)))
        return exp.Paren(
            this=exp.Add(this=self.dialect.divide(above, int_literal(divisor_steps)), expression=int_literal(first))
        )

    def lower_key(self, value: ast.Ref | ast.Bin) -> SQL:
        """What rows are grouped by. A date that Python cannot hold (infinity, before the year 1) is missing."""
        if isinstance(value, ast.Bin):
            return self.lower_value(value)
        key, kind = source_column(value.column), self.table.columns[value.column].kind
        if kind not in (Kind.DATE, Kind.TIMESTAMP):
            return key
        first, last = (date.min, date.max) if kind is Kind.DATE else (datetime.min, datetime.max)
        known = exp.Between(this=key, low=key_literal(first), high=key_literal(last))
        return exp.Case(ifs=[exp.If(this=known, true=key.copy())])

    def lower_presence(self, value: ast.Value) -> SQL:
        """NULL where a value is missing, else 0: all that counting needs, so that a plain column needs no bounds."""
        if not isinstance(value, ast.Ref):
            return self.lower_value(value)
        missing = exp.Is(this=exp.Paren(this=self.lower_column(value.column)), expression=exp.Null())
        return exp.Case(ifs=[exp.If(this=missing, true=exp.Null())], default=bigint_literal(0))

    def lower_where(self, condition: ast.Condition) -> SQL:
        """What a row must pass. A long list is wrapped: Spark takes a plain one apart, as deep a recursion as it is long."""
        passes = self.lower_condition(condition)
        long = isinstance(condition, ast.All) and len(condition.parts) > LONG_CONDITION
        return exp.Coalesce(this=passes, expressions=[exp.false()]) if long else passes

    def lower_condition(self, condition: ast.Condition) -> SQL:
        """True, false or NULL, as SQL has it."""
        match condition:
            case ast.Compare(order=order, left=left, right=right):
                return exp.Paren(this=self._lower_compare(order, left, right))
            case ast.OneOf(value=ref, among=among):
                return exp.Paren(this=self._lower_one_of(ref, among))
            case ast.Missing(value=ref):
                return exp.Paren(this=exp.Is(this=exp.Paren(this=self.lower_column(ref.column)), expression=exp.Null()))
            case ast.All(parts=parts):
                return exp.Paren(this=exp.and_(*(self.lower_condition(part) for part in parts), copy=False))
            case ast.Any(parts=parts):
                return exp.Paren(this=exp.or_(*(self.lower_condition(part) for part in parts), copy=False))
            case ast.Not(part=part):
                return exp.Not(this=self.lower_condition(part))
            case _:
                assert_never(condition)

    def _lower_one_of(self, ref: ast.Ref, among: tuple[ast.Number | ast.Constant, ...]) -> SQL:
        """One flat list, however long: engines limit how deep an expression may be."""
        kind, raw = self.table.columns[ref.column].kind, exp.Paren(this=self.lower_column(ref.column))
        listed: list[SQL] = []
        for each in among:
            if isinstance(each, ast.Constant):
                listed.append(key_literal(each.value))
            elif kind is Kind.REAL:
                listed.append(double_literal(each.value))
            elif each.value.denominator == 1:  # no whole number equals any other
                listed.append(int_literal(int(each.value)))
        return exp.In(this=raw, expressions=listed) if listed else exp.NEQ(this=raw, expression=raw.copy())

    def _lower_compare(self, order: ast.Order, left: ast.Value, right: ast.Value | ast.Constant) -> SQL:
        if isinstance(left, ast.Ref) and isinstance(right, ast.Constant):
            return _ORDERS[order](this=source_column(left.column), expression=key_literal(right.value))
        if isinstance(left, ast.Ref) and isinstance(right, ast.Number):
            return self._lower_compare_number(order, left, right.value)
        assert not isinstance(right, ast.Constant)
        a, b = self._lower_aligned(left, right)
        return _ORDERS[order](this=a, expression=b)

    def _lower_compare_number(self, order: ast.Order, ref: ast.Ref, number: Fraction) -> SQL:
        """A plain column against a constant: the value itself is compared, not the clamped one."""
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


def _stays_inside(lower: Fraction, upper: Fraction, grid_range: GridRange) -> bool:
    """Whether rounding to the grid cannot leave the span: every step of it is monotone, so its two ends decide."""
    low, high = (floor(float(end) * float(1 / grid_range.grid) + 0.5) for end in (lower, upper))
    return grid_range.lower <= low and high <= grid_range.upper


def key_literal(value: object) -> SQL:
    """A text, truth value, date or time."""
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, int):
        return int_literal(value)
    if isinstance(value, str):
        return exp.Literal.string(value)
    kind = exp.DType.TIMESTAMPNTZ if isinstance(value, datetime) else exp.DType.DATE
    return cast(exp.Literal.string(str(value)), kind)


def clamp(value: SQL, lower: SQL, upper: SQL) -> SQL:
    """Inside the bounds, for a value that is not NULL."""
    above = exp.Anonymous(this="GREATEST", expressions=[value, lower])
    return exp.Anonymous(this="LEAST", expressions=[above, upper])


def least(a: SQL, b: SQL) -> SQL:
    """LEAST as the engine has it, of two values that are not NULL."""
    return exp.Anonymous(this="LEAST", expressions=[a, b])


def greatest(a: SQL, b: SQL) -> SQL:
    """GREATEST, likewise."""
    return exp.Anonymous(this="GREATEST", expressions=[a, b])


def saturate(total: SQL, dialect: Dialect) -> SQL:
    """A wide sum as 64 bits. Cutting off moves no two totals further apart; an overflow would tell of the data.
    The sum of nothing is 0."""
    whole_sum = exp.Coalesce(this=total, expressions=[int_literal(0)])
    if not dialect.saturates:
        return whole_sum
    return cast(clamp(whole_sum, int_literal(-SATURATION_LIMIT), int_literal(SATURATION_LIMIT)), exp.DType.BIGINT)


_ORDERS: dict[ast.Order, type[exp.Binary]] = {
    ast.Order.EQUAL: exp.EQ,
    ast.Order.NOT_EQUAL: exp.NEQ,
    ast.Order.LESS: exp.LT,
    ast.Order.AT_MOST: exp.LTE,
    ast.Order.MORE: exp.GT,
    ast.Order.AT_LEAST: exp.GTE,
}
