"""How the SQL of engines differs, as data. A new engine has one `Dialect` here and one package in `discreet.engines`."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

from sqlglot import exp

MAX_ROWS = 1 << 41
"""No engine holds more rows of one table: values of which so many fit 64 bits are added up in 64 bits."""


def _identity(value: exp.Expr) -> exp.Expr:
    return value


def _sum(value: exp.Expr, most: int) -> exp.Expr:
    return exp.Sum(this=value)


def _concat(texts: list[exp.Expr]) -> exp.Expr:
    """CONCAT: in DuckDB a chain of || costs a fifth more."""
    return exp.Anonymous(this="CONCAT", expressions=texts)


def _offset_fence(rows: exp.Select) -> exp.Select:
    """OFFSET 0: PostgreSQL moves no condition into a subquery that has an OFFSET."""
    return rows.offset(0, copy=False)


def _limit_fence(rows: exp.Select) -> exp.Select:
    """LIMIT 2^63 − 1: DuckDB moves no condition below a LIMIT; this one drops no row, and keeps the scan parallel."""
    return rows.limit((1 << 63) - 1, copy=False)


def _counter_fence(rows: exp.Select) -> exp.Select:
    """A row counter: Spark moves no condition below a projection that is not deterministic, as long as it is read."""
    counted = exp.alias_(exp.Anonymous(this="MONOTONICALLY_INCREASING_ID"), "fence", quoted=True)
    inner = rows.select(counted, copy=False).subquery("fenced")
    always = exp.GTE(this=exp.column(exp.to_identifier("fence", quoted=True)), expression=exp.Literal.number(0))
    return exp.select(exp.Star()).from_(inner, copy=False).where(always, copy=False)


def _text_lengths(cells: list[exp.Expr]) -> exp.Expr:
    lengths = [exp.Max(this=exp.Length(this=exp.cast(cell, exp.DType.TEXT))) for cell in cells]
    return exp.Anonymous(this="CONCAT", expressions=[exp.cast(length, exp.DType.TEXT) for length in lengths])


def _hash(function: str) -> Callable[[list[exp.Expr]], exp.Expr]:
    return lambda cells: exp.Anonymous(this="BIT_XOR", expressions=[exp.Anonymous(this=function, expressions=cells)])


def _is_finite(moment: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this="ISFINITE", expressions=[moment])


def _truncate(period: str, day: exp.Expr) -> exp.Expr:
    """DATE_TRUNC of a timestamp without time zone: of a date, PostgreSQL would make a timestamp with one."""
    moment = exp.cast(day, exp.DType.TIMESTAMPNTZ)
    return exp.cast(exp.Anonymous(this="DATE_TRUNC", expressions=[exp.Literal.string(period), moment]), exp.DType.DATE)


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one engine writes what engines write differently."""

    name: str
    is_nan: Callable[[exp.Expr], exp.Expr]  # unknown of NULL
    divide: Callable[[exp.Expr, exp.Expr], exp.Expr]  # of integers, truncated towards zero
    wide_type: str  # the type of sums of 64-bit integers
    add: Callable[[exp.Expr, int], exp.Expr] = _sum  # the sum of 64-bit integers, each at most so large; never overflows
    avoid_underflow: Callable[[exp.Expr], exp.Expr] = _identity  # a double that may be multiplied by a small constant
    order_bytewise: Callable[[exp.Expr], exp.Expr] = _identity  # a text that is ordered by its bytes, whatever the collation
    saturates: bool = True  # whether totals leave the engine in 64 bits
    concat: Callable[[list[exp.Expr]], exp.Expr] = _concat  # texts put together, none of them NULL
    recomputes: bool = False  # whether each aggregate over an expression computes it again
    fence: Callable[[exp.Select], exp.Select] = _offset_fence  # no condition from outside is evaluated inside
    digest: Callable[[list[exp.Expr]], exp.Expr] = _text_lengths  # one number for which every cell must be read
    is_finite: Callable[[exp.Expr], exp.Expr] = _is_finite  # of a date or timestamp; not true of NULL
    truncate: Callable[[str, exp.Expr], exp.Expr] = _truncate  # a date to the first day of its week, month, quarter or year
    isodow: str = "ISODOW"  # the part of a date that is 1 on Monday and 7 on Sunday
    repartitions: bool = False  # whether to send the rows of each unit to one place before they are grouped


def _equals_nan(value: exp.Expr) -> exp.Expr:
    """NaN equals itself in SQL engines, and NULL = NaN is unknown; Spark's isnan(NULL) would be false."""
    return exp.EQ(this=value, expression=exp.cast(exp.Literal.string("NaN"), exp.DType.DOUBLE))


def _flush_underflow(value: exp.Expr) -> exp.Expr:
    """0 for a value so small that it is 0 grid steps: PostgreSQL raises where a product of doubles underflows, and the
    failure would reveal the row."""
    tiny = exp.LT(this=exp.Abs(this=value.copy()), expression=exp.cast(exp.Literal.string("1e-200"), exp.DType.DOUBLE))
    zero = exp.cast(exp.Literal.string("0.0"), exp.DType.DOUBLE)
    return exp.Case(ifs=[exp.If(this=tiny, true=zero)], default=value)


def _collate(value: exp.Expr) -> exp.Expr:
    """COLLATE "C": a database of PostgreSQL may order texts as a language does, and digits in them as numbers."""
    return exp.Collate(this=value, expression=exp.to_identifier("C", quoted=True))


def _chain(texts: list[exp.Expr]) -> exp.Expr:
    """A chain of ||: CONCAT of PostgreSQL looks up the type of each argument in every row."""
    return reduce(lambda before, text: exp.DPipe(this=before, expression=text, safe=True), texts)


def _spark_sum(value: exp.Expr, most: int) -> exp.Expr:
    """SUM, wider where needed: Spark adds 64-bit integers up in 64 bits, and raises where they overflow."""
    if most * MAX_ROWS < 1 << 63:
        return exp.Sum(this=value)
    return exp.Sum(this=exp.cast(value, "DECIMAL(28, 0)", dialect="spark"))  # its sum has all 38 digits


DUCKDB = Dialect(
    "duckdb",
    is_nan=lambda x: exp.IsNan(this=x),
    divide=lambda a, b: exp.IntDiv(this=a, expression=b),
    wide_type="HUGEINT",
    fence=_limit_fence,
    digest=_hash("HASH"),
)
POSTGRES = Dialect(
    "postgres",
    is_nan=_equals_nan,
    divide=lambda a, b: exp.Div(this=a, expression=b, typed=True, safe=False),
    wide_type="NUMERIC",
    avoid_underflow=_flush_underflow,
    order_bytewise=_collate,
    concat=_chain,
    recomputes=True,
)
SPARK = Dialect(
    "spark",
    is_nan=_equals_nan,
    divide=lambda a, b: exp.IntDiv(this=a, expression=b),
    wide_type="DECIMAL(38, 0)",
    add=_spark_sum,
    fence=_counter_fence,
    digest=_hash("XXHASH64"),
    is_finite=lambda x: exp.Not(this=exp.Is(this=x, expression=exp.Null())),  # Spark has no infinite dates
    truncate=lambda period, day: exp.Anonymous(this="TRUNC", expressions=[day, exp.Literal.string(period)]),
    isodow="DAYOFWEEK_ISO",
    repartitions=True,
)
