"""DuckDB, embedded: the engine for files, frames and DuckDB's own databases.

The connection is locked down once the source is in place: no file, no network, no extension, no setting can be reached
through it afterwards. Whatever the engine raises becomes one constant message, because its text may hold a value.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self
from uuid import uuid4
from weakref import WeakKeyDictionary

import duckdb
from sqlglot import exp

from discreet.address import shown_ending
from discreet.engines.csv_file import place_csv
from discreet.engines.duckdb_place import READERS, absolute, begun, connected, copied, home, locked, placed, refuse_collation
from discreet.engines.engine import Reading, SqlEngine, quoted, read_column
from discreet.engines.lookup import MOST_ROWS, copy_lookup, lookup_table
from discreet.engines.owner import log
from discreet.engines.parts import WHOLE, OutOfMemory, Part, added_up
from discreet.errors import EngineFailed, SourceRefused
from discreet.query.bound import Bounded
from discreet.query.table import Column, Kind, Lookup
from discreet.sql.dialects import DUCKDB

KINDS = {
    "BOOLEAN": Kind.BOOLEAN, "VARCHAR": Kind.TEXT, "DATE": Kind.DATE, "UUID": Kind.TEXT, "TINYINT": Kind.INTEGER,
    "SMALLINT": Kind.INTEGER, "INTEGER": Kind.INTEGER, "BIGINT": Kind.INTEGER, "UTINYINT": Kind.INTEGER,
    "USMALLINT": Kind.INTEGER, "UINTEGER": Kind.INTEGER, "FLOAT": Kind.REAL, "DOUBLE": Kind.REAL,
    "TIMESTAMP": Kind.TIMESTAMP, "UBIGINT": Kind.INTEGER, "HUGEINT": Kind.INTEGER,
}  # fmt: skip
ZONED = "TIMESTAMP WITH TIME ZONE"
READ_AS = {"UUID": "VARCHAR", "ENUM": "VARCHAR", "DECIMAL": "DOUBLE", "TIMESTAMP_NS": "TIMESTAMP", ZONED: "TIMESTAMP"}
"""Types that are read as others before anything is compared with them. Each of these readings succeeds on every value."""

BATCH = 20_000


class DuckDB(SqlEngine):
    """One source in one connection."""

    dialect = DUCKDB

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        table: str,
        public: Mapping[str, str] = MappingProxyType({}),
        place: str | None = None,
        collated: bool = True,
    ) -> None:
        self.connection, self.table = connection, table
        self.turn = _turns.setdefault(
            connection, threading.Lock()
        )  # a connection has one result at a time, for all sessions
        self.collated = collated  # whether a text column may take different texts for equal
        self.identity = place or f"in memory, {uuid4().hex}"  # what is nowhere in particular is like nothing else
        self.public = public  # where the copies of public tables are
        self.part = WHOLE  # the units that are read
        self.running = WHOLE  # the part that the running statement reads

    @classmethod
    def open(cls, source: Any, table: str | None = None, kinds: Mapping[str, Kind] | None = None) -> "DuckDB":
        """A CSV or Parquet file (globs too), a DuckDB file or connection, an Arrow table, a pandas or Polars frame.

        `kinds` says what the columns of a CSV file hold; without them it is guessed from the values.
        """
        if isinstance(source, duckdb.DuckDBPyConnection):
            if table is None:
                raise SourceRefused("a connection holds many tables", "say which with table=")
            refuse_collation(source)
            return cls(source, table, place=home(source, table))
        if isinstance(source, str | Path):
            return cls._file(str(source), table, kinds)
        return cls(locked(copied(source, table or "data")), table or "data", collated=False)

    @classmethod
    def _file(cls, path: str, table: str | None, kinds: Mapping[str, Kind] | None) -> "DuckDB":
        suffix, name = Path(path).suffix.lower(), table or Path(path).stem
        if suffix in (".duckdb", ".db"):
            if table is None:
                raise SourceRefused("a database holds many tables", "say which with --table")
            connection = connected(path)
            return cls(locked(connection), table, place=home(connection, table))
        if suffix not in READERS:
            raise SourceRefused(
                f"{shown_ending(path, suffix)} is not a kind of file that can be read", "give .csv, .parquet or .duckdb"
            )
        connection = begun()
        try:
            files = [row[0] for row in connection.execute("SELECT file FROM glob(?)", [path]).fetchall()]
            if kinds is not None and suffix != ".parquet" and files:
                place_csv(connection, name, files, kinds)
            else:
                placed(connection, name, suffix, files)
            return cls(locked(connection, files if suffix == ".parquet" else []), name, place=absolute(path), collated=False)
        except duckdb.Error as mistake:
            log.warning("%s", mistake)
            raise SourceRefused(
                "this file cannot be read", "check the path and the format; the owner's log says more"
            ) from None

    def with_public(self, sources: Mapping[str, Any]) -> tuple[Self, dict[str, Lookup]]:
        """The same source beside copies of these public tables, which may be whatever a source can be. They pass through
        Python, so that the locked connection needs to reach nothing new."""
        places, lookups = dict(self.public), {}
        for name, source in sources.items():
            kinds, rows = DuckDB.open(source, name).contents()
            try:
                places[name], lookups[name] = copy_lookup(self.connection, name, kinds, rows)
            except duckdb.Error as mistake:
                log.warning("%s", mistake)
                raise SourceRefused(f"the public table {name} cannot be copied", "the owner's log says more") from None
        return type(self)(self.connection, self.table, MappingProxyType(places), self.identity, self.collated), lookups

    def contents(self) -> tuple[dict[str, Kind], list[tuple[Any, ...]]]:
        """Every row. Only a public table is read like this."""
        kinds, types = {name: column.kind for name, column in self.columns().items()}, self._types
        if not kinds:
            raise SourceRefused(f"no column of {self.table} can be read", "give numbers, texts, dates or truth values")
        columns = [read_column(name, _reading(types[name])) for name in kinds]
        try:
            found = self.connection.execute(exp.select(*columns).from_(quoted(self.table)).sql(dialect="duckdb"))
            rows = found.fetchmany(MOST_ROWS + 1)
        except duckdb.Error as mistake:
            log.warning("%s", mistake)
            raise SourceRefused(f"{self.table} cannot be read", "the owner's log says more") from None
        if len(rows) > MOST_ROWS:
            raise SourceRefused(f"{self.table} has more than {MOST_ROWS:,} rows", "join to a shorter public table")
        return kinds, rows

    def columns(self) -> dict[str, Column]:
        """Names and kinds of the columns. No value is read."""
        found = {name: _read_as(kind) or kind for name, kind in self._types.items()}
        return {name: Column(KINDS[kind]) for name, kind in found.items() if kind in KINDS}

    @cached_property
    def _types(self) -> dict[str, str]:
        """As they were when the source was opened, which is what was declared."""
        try:
            described = self.connection.sql(exp.select("*").from_(quoted(self.table)).sql(dialect="duckdb"))
            return dict(zip(described.columns, map(str, described.types), strict=True))
        except duckdb.Error as mistake:
            log.warning("%s", mistake)
            raise SourceRefused("this table cannot be read", "check its name; the owner's log says more") from None

    def _place(self) -> exp.Expr:
        return quoted(self.table)

    def _readings(self) -> dict[str, Reading]:
        plain = {name: _reading(kind) for name, kind in self._types.items()}
        texts = [name for name, kind in self._types.items() if self.collated and kind == "VARCHAR"]
        return plain | dict.fromkeys(texts, _letters)

    def _lookup(self, name: str) -> exp.Expr:
        return lookup_table(self.public[name])

    def _source(self, bounded: Bounded) -> exp.Expr:
        return self.part.of(super()._source(bounded), bounded.table.unit)

    def _groups(self, statement: str, width: int, write: Callable[[SqlEngine], str]) -> Iterator[tuple[Any, ...]]:
        """If memory does not suffice for the whole, part by part."""

        def run(part: Part) -> Iterable[tuple[Any, ...]]:
            self.running = part
            return self._rows(write(self._only(part)))

        shown = 0
        try:
            for row in self._rows(statement):
                shown += 1
                yield row
            return
        except OutOfMemory:
            if shown:
                raise EngineFailed from None
        try:
            yield from added_up(run, width)
        finally:
            self.running = WHOLE

    def _only(self, part: Part) -> "DuckDB":
        other = copy(self)
        other.part, other.dialect = part, replace(self.dialect, cut_off=False)
        return other

    def _rows(self, statement: str) -> Iterator[tuple[Any, ...]]:
        """In batches, so that a million keys are never held at once."""
        try:
            result = self.connection.execute(statement)
            while batch := result.fetchmany(BATCH):
                yield from batch
        except duckdb.OutOfMemoryException as mistake:
            log.warning("%s", mistake)
            raise OutOfMemory from None
        except duckdb.Error as mistake:
            log.warning("%s", mistake)
            raise EngineFailed from None

    def progress(self) -> float | None:
        """How much of the running statement is done, from 0 to 1; None if the connection keeps no count of it."""
        percent = self.connection.query_progress()
        return (self.running.index + min(percent, 100.0) / 100) / self.running.count if percent >= 0 else None


_turns: WeakKeyDictionary[duckdb.DuckDBPyConnection, threading.Lock] = WeakKeyDictionary()


def _letters(column: exp.Expr) -> exp.Expr:
    """A text without its collation, which would make one group of texts that the hash and the keys tell apart: every
    person's share is bounded by the letters alone."""
    return exp.Collate(this=column, expression=exp.Var(this="C"))


def _read_as(kind: str) -> str | None:
    return READ_AS.get(kind.partition("(")[0])


def _moment(column: exp.Expr) -> exp.Expr:
    """The same moment in UTC, without a zone. A cast would take the connection's zone; microseconds have none."""
    ends = [exp.Literal.string(text) for text in ("infinity", "-infinity")]
    ifs = [
        exp.If(this=exp.EQ(this=column, expression=exp.cast(end, "TIMESTAMPTZ")), true=exp.cast(end, "TIMESTAMP"))
        for end in ends
    ]
    micros = exp.Anonymous(this="epoch_us", expressions=[column])
    return exp.Case(ifs=ifs, default=exp.Anonymous(this="make_timestamp", expressions=[micros]))


def _reading(kind: str) -> Reading:
    other = _read_as(kind)
    if kind == ZONED:
        return _moment
    return None if other is None else lambda column: exp.cast(column, other, dialect="duckdb")
