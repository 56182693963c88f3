"""Apache DataFusion, embedded: a table of a context that somebody already has.

Questions run in a context of their own, in which the table is a view: no setting of the user's context, such as another
reading of quotes and backslashes, decides what a statement means.
"""

import threading
from collections.abc import Iterator, Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Any
from uuid import uuid4

import pyarrow
from datafusion import SessionContext
from sqlglot import exp

from discreet.engines.duckdb import DuckDB
from discreet.engines.engine import Reading, SqlEngine, quoted
from discreet.engines.lookup import described, held_values
from discreet.engines.owner import log
from discreet.errors import EngineFailed, SourceRefused
from discreet.query.table import Column, Kind, Lookup
from discreet.sql.dialects import DATAFUSION

HELD: dict[Kind, pyarrow.DataType] = {
    Kind.INTEGER: pyarrow.int64(), Kind.REAL: pyarrow.float64(), Kind.BOOLEAN: pyarrow.bool_(), Kind.TEXT: pyarrow.string(),
    Kind.DATE: pyarrow.date32(), Kind.TIMESTAMP: pyarrow.timestamp("us"),
}  # fmt: skip
KINDS: dict[pyarrow.DataType, Kind] = {
    **dict.fromkeys((pyarrow.int8(), pyarrow.int16(), pyarrow.int32(), pyarrow.int64()), Kind.INTEGER),
    **dict.fromkeys((pyarrow.uint8(), pyarrow.uint16(), pyarrow.uint32()), Kind.INTEGER),
    **dict.fromkeys((pyarrow.string(), pyarrow.large_string(), pyarrow.string_view()), Kind.TEXT),
    pyarrow.float32(): Kind.REAL, pyarrow.float64(): Kind.REAL, pyarrow.bool_(): Kind.BOOLEAN, pyarrow.date32(): Kind.DATE,
    pyarrow.timestamp("us"): Kind.TIMESTAMP, pyarrow.timestamp("ns"): Kind.TIMESTAMP,
}  # fmt: skip
"""What is read; moments with a zone, unsigned 64-bit integers and whatever else there is are not shown."""


class DataFusion(SqlEngine):
    """One table in one context."""

    dialect = DATAFUSION

    def __init__(
        self, context: SessionContext, table: str, public: Mapping[str, str] = MappingProxyType({}), identity: str = ""
    ) -> None:
        self.context, self.table, self.public = context, table, public
        self.turn, self.identity = threading.Lock(), identity or f"in memory, {uuid4().hex}"
        self.types = {field.name: field.type for field in context.table("given").schema() if kind_of(field.type)}

    @classmethod
    def of(cls, source: Any, table: str | None) -> "DataFusion":
        """A table of the user's own context."""
        if table is None or not isinstance(source, SessionContext):
            raise SourceRefused("a context holds many tables", "give a SessionContext, and say which with table=")
        own = SessionContext()
        try:
            own.register_view("given", source.table(table))
        except Exception as mistake:
            log.warning("%s", mistake)
            raise SourceRefused("this table cannot be read", "check its name; the owner's log says more") from None
        return cls(own, table)

    def columns(self) -> dict[str, Column]:
        """Names and kinds of the columns. No value is read."""
        return {name: Column(kind) for name, held in self.types.items() if (kind := kind_of(held))}

    def with_public(self, sources: Mapping[str, Any]) -> "tuple[DataFusion, dict[str, Lookup]]":
        """The same table beside copies of these public ones, which may be files or frames."""
        places, lookups = dict(self.public), {}
        for name, source in sources.items():
            kinds, rows = DuckDB.open(source, name).contents()
            values, place = held_values(kinds, rows), f"discreet_{uuid4().hex}"
            arrays = [pyarrow.array(values[column], HELD[kind]) for column, kind in kinds.items()]
            self.context.register_record_batches(place, [[pyarrow.record_batch(arrays, names=list(kinds))]])
            places[name], lookups[name] = place, described(name, kinds, values, self._unique(place, kinds))
        return DataFusion(self.context, self.table, MappingProxyType(places), self.identity), lookups

    def _unique(self, place: str, kinds: Mapping[str, Kind]) -> frozenset[str]:
        """Asked of the engine, whose equality is the one that will join."""
        names = [name for name, kind in kinds.items() if kind is not Kind.REAL]
        columns = [exp.column(exp.to_identifier(name, quoted=True)) for name in names]
        once = [exp.EQ(this=exp.Count(this=c), expression=exp.Count(this=exp.Distinct(expressions=[c]))) for c in columns]
        statement = exp.select(*once).from_(quoted(place)).sql(dialect=self.dialect.name)
        found = next(self._rows(statement)) if once else ()
        return frozenset(name for name, unique in zip(names, found, strict=True) if unique)

    def progress(self) -> float | None:
        """It keeps no count."""
        return None

    def _place(self) -> exp.Expr:
        return quoted("given")

    def _readings(self) -> dict[str, Reading]:
        return {name: _reading_of(held) for name, held in self.types.items()}

    def _lookup(self, name: str) -> exp.Expr:
        return quoted(self.public[name])

    def _rows(self, statement: str) -> Iterator[tuple[Any, ...]]:
        """Batch by batch. A panic of the engine is no Exception, and its text may hold a value too."""
        try:
            for batch in self.context.sql(statement).execute_stream():
                yield from zip(*(_whole(column.to_pylist()) for column in batch.to_pyarrow().columns), strict=True)
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException as mistake:
            log.warning("%s", mistake)
            raise EngineFailed from None


def kind_of(held: pyarrow.DataType) -> Kind | None:
    """What a column holds; None if it is not read. decimal(p, 0) holds whole numbers; any other decimal is a real."""
    if pyarrow.types.is_decimal128(held):
        return Kind.INTEGER if held.scale == 0 else Kind.REAL
    return KINDS.get(held)


def _reading_of(held: pyarrow.DataType) -> Reading:
    """How it is read."""
    if pyarrow.types.is_decimal128(held) and held.scale != 0:
        return lambda number: exp.cast(number, exp.DType.DOUBLE)
    if held == pyarrow.timestamp("ns"):
        return lambda moment: exp.cast(moment, exp.DType.TIMESTAMPNTZ)
    return None


def _whole(values: list[Any]) -> list[Any]:
    """Wide totals come as decimals without a fraction."""
    return [int(value) if isinstance(value, Decimal) else value for value in values]
