"""How the SQL of engines differs, as data, and the terms that statements are made of.

A new engine has one `Dialect` here and one package in `discreet.engines`. What an analyst writes is lowered in
`expressions`, which a session loads with its first query; engines name columns with what is here before that.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from functools import reduce
from hashlib import sha256

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


def _hash_duckdb(text: exp.Expr) -> exp.Expr:
    """HASH has 64 bits and no sign: the last one is dropped."""
    hashed = exp.Anonymous(this="HASH", expressions=[text])
    return exp.cast(exp.BitwiseRightShift(this=hashed, expression=exp.Literal.number(1)), exp.DType.BIGINT)


def _hash_postgres(text: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this="HASHTEXTEXTENDED", expressions=[text, exp.Literal.number(0)])


def _hash_spark(text: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this="XXHASH64", expressions=[text])


def _parse_hex_duckdb(digits: exp.Expr, count: int) -> exp.Expr:
    prefixed = exp.Anonymous(this="CONCAT", expressions=[exp.Literal.string("0x"), digits])
    return exp.cast(prefixed, exp.DType.BIGINT)


def _parse_hex_postgres(digits: exp.Expr, count: int) -> exp.Expr:
    prefixed = exp.Paren(this=exp.DPipe(this=exp.Literal.string("x"), expression=digits, safe=True))
    return exp.cast(exp.cast(prefixed, f"BIT({4 * count})", dialect="postgres"), exp.DType.BIGINT)


def _parse_hex_spark(digits: exp.Expr, count: int) -> exp.Expr:
    bases = [exp.Literal.number(16), exp.Literal.number(10)]
    return exp.cast(exp.Anonymous(this="CONV", expressions=[digits, *bases]), exp.DType.BIGINT)


def _look_up_jsonb(key: exp.Expr, numbers: Mapping[str, int]) -> exp.Expr:
    """A constant object of JSON, in which PostgreSQL finds a key by bisection. A join would forbid the plan that groups in
    parallel and keeps the order of units."""
    listed = exp.cast(exp.Literal.string(json.dumps(numbers, ensure_ascii=False)), "JSONB", dialect="postgres")
    found = exp.Anonymous(this="JSONB_OBJECT_FIELD_TEXT", expressions=[listed, exp.cast(key, exp.DType.TEXT)])
    return exp.cast(found, exp.DType.BIGINT)


def _is_finite(moment: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this="ISFINITE", expressions=[moment])


def _truncate(period: str, day: exp.Expr) -> exp.Expr:
    """DATE_TRUNC of a timestamp without time zone: of a date, PostgreSQL would make a timestamp with one."""
    moment = exp.cast(day, exp.DType.TIMESTAMPNTZ)
    return exp.cast(exp.Anonymous(this="DATE_TRUNC", expressions=[exp.Literal.string(period), moment]), exp.DType.DATE)


def _unnest(function: str) -> Callable[[exp.Expr, exp.Expr], exp.Select]:
    """UNNEST WITH ORDINALITY, which counts from 1."""

    def split(text: exp.Expr, separator: exp.Expr) -> exp.Select:
        parts = exp.Anonymous(this=function, expressions=[text, separator])
        names = exp.TableAlias(this=exp.to_identifier("parts"), columns=[exp.to_identifier("part", quoted=True)])
        place = exp.Sub(this=column("place"), expression=int_literal(1))
        rows = exp.Unnest(expressions=[parts], alias=names, offset=exp.to_identifier("place", quoted=True))
        return exp.select(column("part"), alias(place, "place"), copy=False).from_(rows, copy=False)

    return split


def _explode(text: exp.Expr, separator: exp.Expr) -> exp.Select:
    """POSEXPLODE, which counts from 0. SPLIT takes a regular expression: the separator is a character without a meaning."""
    parts = exp.Anonymous(this="SPLIT", expressions=[text, separator])
    names = [exp.to_identifier(name, quoted=True) for name in ("place", "part")]
    return exp.select(exp.Aliases(this=exp.Anonymous(this="POSEXPLODE", expressions=[parts]), expressions=names))


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one engine writes what engines write differently."""

    name: str
    is_nan: Callable[[exp.Expr], exp.Expr]  # unknown of NULL
    divide: Callable[[exp.Expr, exp.Expr], exp.Expr]  # of integers, truncated towards zero
    wide_type: str  # the type of sums of 64-bit integers
    split: Callable[[exp.Expr, exp.Expr], exp.Select]  # each `part` of a text, and its `place`, counted from 0
    parse_hex: Callable[[exp.Expr, int], exp.Expr]  # so many hexadecimal digits, at most 15, as a 64-bit integer
    add: Callable[[exp.Expr, int], exp.Expr] = _sum  # the sum of 64-bit integers, each at most so large; never overflows
    avoid_underflow: Callable[[exp.Expr], exp.Expr] = _identity  # a double that may be multiplied by a small constant
    order_bytewise: Callable[[exp.Expr], exp.Expr] = _identity  # a text that is ordered by its bytes, whatever the collation
    saturates: bool = True  # whether totals leave the engine in 64 bits
    concat: Callable[[list[exp.Expr]], exp.Expr] = _concat  # texts put together, none of them NULL
    recomputes: bool = False  # whether each aggregate over an expression computes it again
    fence: Callable[[exp.Select], exp.Select] = _offset_fence  # no condition from outside is evaluated inside
    digest: Callable[[list[exp.Expr]], exp.Expr] = _text_lengths  # one number for which every cell must be read
    hash_text: Callable[[exp.Expr], exp.Expr] = _hash_postgres  # a text as a 64-bit integer with a sign; the same each time
    is_finite: Callable[[exp.Expr], exp.Expr] = _is_finite  # of a date or timestamp; not true of NULL
    truncate: Callable[[str, exp.Expr], exp.Expr] = _truncate  # a date to the first day of its week, month, quarter or year
    isodow: str = "ISODOW"  # the part of a date that is 1 on Monday and 7 on Sunday
    repartitions: bool = False  # whether to send the rows of each unit to one place before they are grouped
    repeats: bool = False  # whether a column of a subquery is computed again for each use, unless there is a fence
    look_up: Callable[[exp.Expr, Mapping[str, int]], exp.Expr] | None = None
    """The number of a key's text among constants, where that takes less time than to group by numbers."""
    joins_hashes: bool = False  # whether hashing each distinct key once and joining takes less time than hashing in each row
    narrows_orders: bool = False  # whether an order of 32 bits is sorted in less time than one of 64


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
    split=_unnest("STRING_SPLIT"),
    parse_hex=_parse_hex_duckdb,
    joins_hashes=True,
    narrows_orders=True,
    fence=_limit_fence,
    digest=_hash("HASH"),
    hash_text=_hash_duckdb,
)
POSTGRES = Dialect(
    "postgres",
    is_nan=_equals_nan,
    divide=lambda a, b: exp.Div(this=a, expression=b, typed=True, safe=False),
    wide_type="NUMERIC",
    split=_unnest("STRING_TO_ARRAY"),
    parse_hex=_parse_hex_postgres,
    look_up=_look_up_jsonb,
    repeats=True,
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
    split=_explode,
    parse_hex=_parse_hex_spark,
    add=_spark_sum,
    fence=_counter_fence,
    digest=_hash("XXHASH64"),
    hash_text=_hash_spark,
    is_finite=lambda x: exp.Not(this=exp.Is(this=x, expression=exp.Null())),  # Spark has no infinite dates
    truncate=lambda period, day: exp.Anonymous(this="TRUNC", expressions=[day, exp.Literal.string(period)]),
    isodow="DAYOFWEEK_ISO",
    repartitions=True,
)


# -- terms of a statement: names, constants and small functions ------------------------------------------------------------

SQL = exp.Expr
SOURCE = "source"
"""What a statement calls the rows that it reads."""

MAX_NAME_BYTES = 63
"""Names of so many bytes are kept whole by every engine."""

SATURATION_LIMIT = (1 << 63) - 1
"""Totals are cut off here, and below at its negative."""


def column(name: str, table: str | None = None) -> exp.Column:
    """A column, always quoted, of this table if one is named."""
    at = None if table is None else exp.Identifier(this=table, quoted=True)
    return exp.Column(this=exp.Identifier(this=name, quoted=True), table=at)


def source_column(name: str) -> exp.Column:
    """A column of the source. Its table is named, so that no name of a step can be mistaken for it."""
    return column(shorten_name(name), SOURCE)


def shorten_name(name: str) -> str:
    """A column's name inside a statement. PostgreSQL cuts names off after 63 bytes, where two long ones may become one.

    >>> shorten_name("depts.floor"), shorten_name("p" * 70)
    ('depts.floor', 'pppppppppppppppppppppppppppppppppppppppp d79ad4b575f328af')
    """
    encoded = name.encode(errors="surrogatepass")
    if len(encoded) <= MAX_NAME_BYTES:
        return name
    return f"{encoded[:40].decode(errors='ignore')} {sha256(encoded).hexdigest()[:16]}"


def alias(value: SQL, name: str) -> SQL:
    """A value under a name."""
    return exp.Alias(this=value, alias=exp.Identifier(this=name, quoted=True))


def cast(value: SQL, kind: exp.DType) -> SQL:
    """A value as another type."""
    return exp.Cast(this=value, to=exp.DataType(this=kind))


def prefix_with_length(value: SQL) -> list[SQL]:
    """The text of a value that is not NULL, as parts to put together: its length, a colon, itself. Texts that are put
    together like this never run together: the length says where each ends."""
    text = cast(value, exp.DType.VARCHAR)
    return [cast(exp.Length(this=text.copy()), exp.DType.VARCHAR), exp.Literal.string(":"), text]


def encode_tuple(values: Sequence[SQL], dialect: Dialect) -> SQL:
    """One text for several values, which differs where any of them does; NULL if one of them is.

    A value is of a kind whose text tells its values apart: no real. So two tuples with the same text are the same tuple."""
    missing = exp.or_(*(exp.Is(this=value.copy(), expression=exp.Null()) for value in values), copy=False)
    texts = dialect.concat([part for value in values for part in prefix_with_length(value.copy())])
    return exp.Case(ifs=[exp.If(this=missing, true=exp.Null())], default=dialect.order_bytewise(exp.Paren(this=texts)))


def int_literal(number: int) -> SQL:
    """A whole constant."""
    return exp.Literal.number(number) if number >= 0 else exp.Paren(this=exp.Neg(this=exp.Literal.number(-number)))


def bigint_literal(number: int) -> SQL:
    """A whole constant of 64 bits: engines take a small literal for 32 bits, and its products overflow."""
    return cast(int_literal(number), exp.DType.BIGINT)


def double_literal(number: Fraction) -> SQL:
    """A constant double, as its shortest exact decimal text."""
    return cast(exp.Literal.string(repr(float(number))), exp.DType.DOUBLE)


def key_literal(value: object) -> SQL:
    """A constant text, whole number, truth value, date or time."""
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, int):
        return int_literal(value)
    if isinstance(value, str):
        return exp.Literal.string(value)
    kind = exp.DType.TIMESTAMPNTZ if isinstance(value, datetime) else exp.DType.DATE
    return cast(exp.Literal.string(str(value)), kind)


def least(a: SQL, b: SQL) -> SQL:
    """The smaller of two values that are not NULL."""
    return exp.Anonymous(this="LEAST", expressions=[a, b])


def greatest(a: SQL, b: SQL) -> SQL:
    """The greater of two values that are not NULL."""
    return exp.Anonymous(this="GREATEST", expressions=[a, b])


def clip(value: SQL, lower: SQL, upper: SQL) -> SQL:
    """A value that is not NULL, clipped to bounds."""
    above = exp.Anonymous(this="GREATEST", expressions=[value, lower])
    return exp.Anonymous(this="LEAST", expressions=[above, upper])


def saturate(total: SQL, dialect: Dialect) -> SQL:
    """A wide sum as 64 bits; the sum of nothing is 0. Cutting off moves no two totals further apart, while an overflow would
    reveal something of the data."""
    present = exp.Coalesce(this=total, expressions=[int_literal(0)])
    if not dialect.saturates:
        return present
    return cast(clip(present, int_literal(-SATURATION_LIMIT), int_literal(SATURATION_LIMIT)), exp.DType.BIGINT)
