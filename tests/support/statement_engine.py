"""An engine that writes statements and runs none, in the dialect of each engine and with its column readers."""

from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql import types
from sqlglot import exp

from discreet.engines.base import ColumnReader, SqlEngine, quote_table
from discreet.engines.postgres import _compare_bytewise, _to_double_guarded, _to_whole
from discreet.engines.spark import reader_of
from discreet.query.schema import Column, Kind
from discreet.sql.dialects import DUCKDB, POSTGRES, SPARK, Dialect

ENGINES: dict[str, tuple[Dialect, dict[str, ColumnReader]]] = {
    "duckdb": (DUCKDB, {"price": lambda column: exp.cast(column, "DOUBLE", dialect="duckdb")}),
    "postgres": (
        POSTGRES,
        {
            "uid": _compare_bytewise, "dept": _compare_bytewise, "price": _to_double_guarded, "points": _to_whole,
            "at": lambda column: exp.AtTimeZone(this=column, zone=exp.Literal.string("UTC")),
        },
    ),
    "spark": (
        SPARK,
        {
            "uid": reader_of(types.StringType()), "dept": reader_of(types.StringType(), padded=True),
            "price": reader_of(types.DecimalType(18, 3)), "at": reader_of(types.TimestampType()),
        },
    ),
}  # fmt: skip
COLUMNS = {
    "uid": Column(Kind.TEXT), "dept": Column(Kind.TEXT, keys=("a", "b's", None)), "city": Column(Kind.INTEGER),
    "age": Column(Kind.INTEGER).with_bounds(0, 120), "pay": Column(Kind.REAL).with_bounds(-1, 10**9),
    "price": Column(Kind.REAL).with_bounds(0, 1), "points": Column(Kind.INTEGER).with_bounds(0, 2**40),
    "ok": Column(Kind.BOOLEAN),
    "day": Column(Kind.DATE), "at": Column(Kind.TIMESTAMP),
}  # fmt: skip


class StatementEngine(SqlEngine):
    """An engine that runs no statement."""

    def __init__(
        self, dialect: Dialect, readers: Mapping[str, ColumnReader], columns: Mapping[str, Column] = COLUMNS
    ) -> None:
        self.dialect = dialect
        super().__init__("people", "no table", quote_table("people"), {name: readers.get(name) for name in columns})

    def _public_relation(self, name: str) -> exp.Expr:
        return quote_table("copy of cities")

    def _execute(self, statement: str) -> Iterator[tuple[Any, ...]]:
        raise AssertionError("no statement is run")
