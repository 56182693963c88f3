"""Terms of a statement: names, constants and small functions. What an analyst writes is lowered in `expressions`."""

from collections.abc import Sequence
from datetime import datetime
from fractions import Fraction
from hashlib import sha256

from sqlglot import exp

from discreet.sql.dialects import Dialect

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
