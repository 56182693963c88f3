"""Which types of PostgreSQL are read, and as what. Whatever is not named here (arrays, JSON, money …) is not shown.

numeric(p, 0) holds whole numbers; any other numeric is a real. character(n) is read without its padding.
"""

from psycopg import Column
from sqlglot import exp

from discreet.engines.base import ColumnReader
from discreet.query.schema import Kind

TYPES = {
    Kind.INTEGER: "bigint", Kind.REAL: "double precision", Kind.BOOLEAN: "boolean", Kind.TEXT: 'text COLLATE "C"',
    Kind.DATE: "date", Kind.TIMESTAMP: "timestamp",
}  # fmt: skip

NUMERIC, TIMESTAMPTZ, CHARACTER = 1700, 1184, 1042
KINDS = {
    16: Kind.BOOLEAN, 20: Kind.INTEGER, 21: Kind.INTEGER, 23: Kind.INTEGER, 700: Kind.REAL, 701: Kind.REAL,
    NUMERIC: Kind.REAL, 25: Kind.TEXT, 1043: Kind.TEXT, CHARACTER: Kind.TEXT, 19: Kind.TEXT, 2950: Kind.TEXT,
    1082: Kind.DATE, 1114: Kind.TIMESTAMP, TIMESTAMPTZ: Kind.TIMESTAMP,
}  # fmt: skip
"""By the number of the type, which is the same on every server."""

SAFE = 300
"""A numeric of so many digits on either side of its point is within the range of a double."""


def kind_of(column: Column) -> Kind | None:
    """What a column holds; None if it is not read."""
    if column.type_code == NUMERIC and column.precision is not None and column.scale == 0:
        return Kind.INTEGER
    return KINDS.get(column.type_code)


def reader_of(column: Column, kind: Kind) -> ColumnReader:
    """How it is read."""
    if kind is Kind.TEXT:
        return _compare_bytewise
    if column.type_code == TIMESTAMPTZ:
        return lambda moment: exp.AtTimeZone(this=moment, zone=exp.Literal.string("UTC"))
    if column.type_code != NUMERIC:
        return None
    if kind is Kind.INTEGER:
        return _to_whole
    return _to_double if _is_narrow(column.precision, column.scale) else _to_double_guarded


def _is_narrow(precision: int | None, scale: int | None) -> bool:
    """Whether a double holds the size of every value. numeric(3, -400) has few digits before many noughts."""
    return precision is not None and scale is not None and 0 <= scale <= SAFE and precision - scale <= SAFE


def _compare_bytewise(text: exp.Expr) -> exp.Expr:
    return exp.Collate(this=exp.cast(text, exp.DType.TEXT), expression=exp.to_identifier("C", quoted=True))


def _to_whole(number: exp.Expr) -> exp.Expr:
    """Even a numeric without digits after the point can be NaN."""
    nan = exp.If(this=exp.EQ(this=number, expression=_numeric("NaN")), true=exp.Null())
    return exp.Case(ifs=[nan], default=number.copy())


def _to_double(number: exp.Expr) -> exp.Expr:
    return exp.cast(number, exp.DType.DOUBLE)


def _to_double_guarded(number: exp.Expr) -> exp.Expr:
    """The cast raises on what a double cannot hold, which would tell of the row: NaN, then too large, then too small."""
    nan = exp.EQ(this=number, expression=_numeric("NaN"))
    above = exp.GT(this=number, expression=_numeric("1.7976931348623157e308"))
    below = exp.LT(this=number, expression=_numeric("-1.7976931348623157e308"))
    tiny = exp.LT(this=exp.Abs(this=number), expression=_numeric("5e-324"))
    cases = ((nan, "NaN"), (above, "Infinity"), (below, "-Infinity"), (tiny, "0"))
    ifs = [exp.If(this=test, true=exp.cast(exp.Literal.string(text), exp.DType.DOUBLE)) for test, text in cases]
    return exp.Case(ifs=ifs, default=_to_double(number))


def _numeric(text: str) -> exp.Expr:
    return exp.cast(exp.Literal.string(text), exp.DType.DECIMAL)
