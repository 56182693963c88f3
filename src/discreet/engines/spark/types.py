"""Which types of Spark are read, and as what. Whatever is not named here (arrays, maps, binaries, intervals …) is not shown.

decimal(p, 0) holds whole numbers; any other decimal is a real. char(n) is read without its padding. A text whose bytes are
no UTF-8 is missing: nothing could show it, and one row must not decide whether there is an answer.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import pyarrow
from pyspark.sql import DataFrame, SparkSession, types
from sqlglot import exp

from discreet.engines.base import ColumnReader
from discreet.query.schema import Kind

TYPES: dict[Kind, tuple[pyarrow.DataType, types.DataType]] = {
    Kind.INTEGER: (pyarrow.int64(), types.LongType()),
    Kind.REAL: (pyarrow.float64(), types.DoubleType()),
    Kind.BOOLEAN: (pyarrow.bool_(), types.BooleanType()),
    Kind.TEXT: (pyarrow.string(), types.StringType()),
    Kind.DATE: (pyarrow.date32(), types.DateType()),
    Kind.TIMESTAMP: (pyarrow.timestamp("us"), types.TimestampNTZType()),
}


def kind_of(kind: types.DataType) -> Kind | None:
    """What a column holds; None if it is not read."""
    match kind:
        case types.ByteType() | types.ShortType() | types.IntegerType() | types.LongType():
            return Kind.INTEGER
        case types.DecimalType():
            return Kind.INTEGER if kind.scale == 0 else Kind.REAL
        case types.FloatType() | types.DoubleType():
            return Kind.REAL
        case types.BooleanType():
            return Kind.BOOLEAN
        case types.StringType() | types.CharType() | types.VarcharType():
            return Kind.TEXT
        case types.DateType():
            return Kind.DATE
        case types.TimestampType() | types.TimestampNTZType():
            return Kind.TIMESTAMP
        case _:
            return None


def reader_of(kind: types.DataType, padded: bool = False) -> ColumnReader:
    """How it is read."""
    match kind:
        case types.DecimalType() if kind.scale != 0:
            return lambda number: exp.cast(number, exp.DType.DOUBLE)
        case types.StringType() | types.CharType() | types.VarcharType():
            plain = not isinstance(kind, types.StringType) or kind.isUTF8BinaryCollation()
            return partial(_to_plain_text, plain=plain, padded=padded or isinstance(kind, types.CharType))
        case types.TimestampType():
            return lambda moment: exp.cast(moment, exp.DType.TIMESTAMPNTZ)  # the session's zone is UTC
        case _:
            return None


def is_padded(field: types.StructField) -> bool:
    """Whether it is a char(n), which Spark shows as a plain text."""
    return str((field.metadata or {}).get("__CHAR_VARCHAR_TYPE_STRING", "")).startswith("char(")


def _to_plain_text(text: exp.Expr, plain: bool, padded: bool) -> exp.Expr:
    """Byte by byte, whatever the collation."""
    if not plain:
        text = exp.Anonymous(this="COLLATE", expressions=[text, exp.Literal.string("UTF8_BINARY")])
    if padded:
        text = exp.Anonymous(this="RTRIM", expressions=[text])
    valid = exp.Anonymous(this="IS_VALID_UTF8", expressions=[text])
    return exp.Case(ifs=[exp.If(this=valid, true=text.copy())])


def to_frame(session: SparkSession, kinds: Mapping[str, Kind], values: Mapping[str, list[Any]]) -> DataFrame:
    """A public table as a frame."""
    arrays = [pyarrow.array(values[name], TYPES[kind][0]) for name, kind in kinds.items()]
    schema = types.StructType([types.StructField(name, TYPES[kind][1]) for name, kind in kinds.items()])
    return session.createDataFrame(pyarrow.table(arrays, names=list(kinds)), schema)
