"""DuckDB, embedded: the engine for files, frames and DuckDB's own databases.

The connection is locked down once the source is in place: no file, no network, no extension, no setting can be reached
through it afterwards. Whatever the engine raises becomes one constant message, because its text may hold a value.
"""

import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
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

from discreet.engines.base import ColumnReader, Fingerprint, OutOfResources, SqlEngine, quote_table, read_column
from discreet.engines.duckdb.connection import (
    TableLocation,
    absolute_path,
    check_collation,
    files_of_folder,
    find_table,
    lock_down,
    name_of_folder,
    new_connection,
    open_database,
    own_location,
    real_path,
    refuse_closed_files,
    refuse_without_access,
)
from discreet.engines.duckdb.files import compute_parquet_fingerprint, create_parquet_view, load_csv, read_physical_type
from discreet.engines.duckdb.frames import copy_frame, find_frame_unit_problem
from discreet.engines.duckdb.parts import WHOLE, OutOfMemory, Part, sum_over_parts
from discreet.engines.duckdb.public_tables import MAX_ROWS, copy_public_table, public_table_expression
from discreet.engines.duckdb.types import ZONED, ZONED_NS, kind_of
from discreet.engines.owner import SAYS_MORE, owner_log
from discreet.errors import EngineFailed, SourceRefused
from discreet.paths import format_path, format_suffix
from discreet.query.contribution import BoundedQuery
from discreet.query.schema import Column, Kind, PublicTable
from discreet.sql.dialects import DUCKDB

READ_AS = {
    "UUID": "VARCHAR",
    "ENUM": "VARCHAR",
    "DECIMAL": "DOUBLE",
    "TIMESTAMP_NS": "TIMESTAMP",
    ZONED: "TIMESTAMP",
    ZONED_NS: "TIMESTAMP",
}
"""Types that are read as others before anything is compared with them. Each of these readings succeeds on every value."""

READERS = {".csv": load_csv, ".tsv": load_csv, ".parquet": create_parquet_view}
_CSV = "check that it is CSV in UTF-8, with the same number of cells in every row"
FORMAT_HINTS = {".csv": _CSV, ".tsv": _CSV, ".parquet": "check that it is Parquet"}
RESOURCES = (duckdb.IOException, duckdb.InterruptException, duckdb.ConnectionException, duckdb.HTTPException)
BATCH = 20_000


class DuckDB(SqlEngine):
    """One source in one connection."""

    dialect = DUCKDB

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        table: str,
        public: Mapping[str, str] = MappingProxyType({}),
        *,
        location: TableLocation | None = None,
        identity: str | None = None,
        collated: bool = True,
        identities: str | None = None,
        origins: Sequence[str] = (),
        files: Sequence[str] = (),
        problem: str | None = None,
    ) -> None:
        self.connection, self.table, self.location = connection, table, location or find_table(connection, table)
        self.lock = _locks.setdefault(
            connection, threading.Lock()
        )  # a connection has one result at a time, for all sessions
        self.collated = collated  # whether a text column may take different texts for equal
        self.identities = identities  # the column of our own that holds the units' identities, if theirs does not
        self.files = files  # that the table is read from at each question
        self._origins = tuple(origins)
        self.problem = problem  # why the units of a frame cannot be told apart
        self.computed = self.location.computed
        self.lasting = identity is not None
        self.identity = identity or f"in memory, {uuid4().hex}"  # what is nowhere in particular is like nothing else
        self.public = public  # where the copies of public tables are
        self.part = WHOLE  # the units that are read
        self.running = WHOLE  # the part that the running statement reads

    @classmethod
    def open(
        cls, source: Any, table: str | None = None, kinds: Mapping[str, Kind] | None = None, unit: str | None = None
    ) -> "DuckDB":
        """A CSV or Parquet file (globs too), a folder of Parquet files, a DuckDB file or connection, an Arrow table, a
        pandas or Polars frame.

        `kinds` says what the columns of a CSV file or a frame hold; without them it is inferred from the values of a file.
        `unit` names the column whose cells are read as identities.
        """
        if isinstance(source, duckdb.DuckDBPyConnection):
            if table is None:
                raise SourceRefused("a connection holds many tables", "say which with table=")
            check_collation(source)
            return cls._from_database(source, table)
        if isinstance(source, str | Path):
            return cls._from_file(str(source), table, kinds, unit)
        return cls._from_frame(source, table or "data", kinds, unit)

    @classmethod
    def _from_database(cls, connection: duckdb.DuckDBPyConnection, table: str) -> "DuckDB":
        place = find_table(connection, table)
        return cls(connection, table, location=place, identity=place.durable_address)

    @classmethod
    def _from_frame(cls, frame: Any, table: str, kinds: Mapping[str, Kind] | None, unit: str | None) -> "DuckDB":
        connection = new_connection()
        try:
            identities = copy_frame(connection, table, frame, kinds, unit)
        except SourceRefused:
            raise
        except Exception as mistake:  # cells are objects of anybody's, whose methods may raise anything
            owner_log.warning("%s", mistake)
            raise SourceRefused(
                "this is not a table that can be read", "give a path, a frame, an Arrow table or a connection"
            ) from None
        problem = find_frame_unit_problem(frame, unit)
        return cls(
            lock_down(connection),
            table,
            location=own_location(table),
            collated=False,
            identities=identities,
            problem=problem,
        )

    @classmethod
    def _from_file(cls, path: str, table: str | None, kinds: Mapping[str, Kind] | None, unit: str | None) -> "DuckDB":
        suffix, name, pattern = Path(path).suffix.lower(), table or Path(path).stem, path
        refuse_without_access(path)
        if suffix in (".duckdb", ".db"):
            if table is None:
                raise SourceRefused("a database holds many tables", "say which with --table")
            return cls._from_database(lock_down(open_database(path)), table)
        if os.path.isdir(path):
            suffix, name, pattern = ".parquet", table or name_of_folder(path), files_of_folder(path)
        if not suffix and "=" not in path and not os.path.exists(path):
            raise SourceRefused(_nothing_at(path), "check the path")
        if suffix not in READERS:
            raise SourceRefused(
                f"{format_suffix(path, suffix)} is not a kind of file that can be read",
                "give .csv, .parquet or .duckdb, or a folder of Parquet files",
            )
        connection = new_connection()
        try:
            files = [row[0] for row in connection.execute("SELECT file FROM glob(?)", [pattern]).fetchall()]
            if not files:
                raise SourceRefused(_nothing_at(path), "check the path")
            refuse_closed_files(files, path)
            identities = READERS[suffix](connection, name, files, kinds, unit)
        except duckdb.Error as mistake:
            owner_log.warning("%s", mistake)
            reason = f"{format_path(path)} cannot be read"
            raise SourceRefused(reason, f"{FORMAT_HINTS[suffix]}; {SAYS_MORE}") from None
        read_again = files if suffix == ".parquet" else []
        connection = lock_down(connection, read_again)
        return cls(
            connection,
            name,
            location=own_location(name),
            identity=absolute_path(path),
            collated=False,
            identities=identities,
            origins=[real_path(file) for file in files],
            files=read_again,
        )

    def with_public(self, sources: Mapping[str, Any]) -> tuple[Self, dict[str, PublicTable]]:
        """The same source beside copies of these public tables, which may be whatever a source can be. They pass through
        Python, so that the locked connection needs to reach nothing new."""
        places, lookups = dict(self.public), {}
        for name, source in sources.items():
            kinds, rows = DuckDB.open(source, name).read_all()
            try:
                places[name], lookups[name] = copy_public_table(self.connection, name, kinds, rows)
            except duckdb.Error as mistake:
                owner_log.warning("%s", mistake)
                raise SourceRefused(f"the public table {name} cannot be copied", SAYS_MORE) from None
        beside = copy(self)
        beside.public = MappingProxyType(places)
        return beside, lookups

    def read_all(self) -> tuple[dict[str, Kind], list[tuple[Any, ...]]]:
        """Every row. Only a public table is read like this."""
        kinds, types = {name: column.kind for name, column in self.describe_columns().items()}, self._types
        if not kinds:
            raise SourceRefused(f"no column of {self.table} can be read", "give numbers, texts, dates or truth values")
        columns = [read_column(name, _reader_of(types[name])) for name in kinds]
        try:
            found = self.connection.execute(exp.select(*columns).from_(self._table_expression()).sql(dialect="duckdb"))
            rows = found.fetchmany(MAX_ROWS + 1)
        except duckdb.Error as mistake:
            owner_log.warning("%s", mistake)
            raise SourceRefused(f"{self.table} cannot be read", SAYS_MORE) from None
        if len(rows) > MAX_ROWS:
            raise SourceRefused(f"{self.table} has more than {MAX_ROWS:,} rows", "join to a shorter public table")
        return kinds, rows

    def describe_columns(self) -> dict[str, Column]:
        """Names and kinds of the columns. No value is read."""
        kinds = {name: kind_of(held) for name, held in self._types.items()}
        return {name: Column(kind) for name, kind in kinds.items() if kind is not None and name != self.identities}

    @cached_property
    def _types(self) -> dict[str, str]:
        """As they were when the source was opened, which is what was declared."""
        try:
            described = self.connection.sql(exp.select("*").from_(self._table_expression()).sql(dialect="duckdb"))
            return dict(zip(described.columns, map(str, described.types), strict=True))
        except duckdb.Error as mistake:
            owner_log.warning("%s", mistake)
            raise SourceRefused("this table cannot be read", f"check its name; {SAYS_MORE}") from None

    def compute_fingerprint(self, columns: Collection[str]) -> Fingerprint | None:
        """Parquet is known by its files; what a view computes can be known by nothing, and is read again each time."""
        if self.files:
            return Fingerprint(compute_parquet_fingerprint(self.connection, self.files, columns))
        return Fingerprint(None) if self.computed else None

    def _table_expression(self) -> exp.Expr:
        return quote_table(*self.location.qualified_name)

    def _column_readers(self) -> dict[str, ColumnReader]:
        plain = {name: _reader_of(kind) for name, kind in self._types.items()}
        texts = [name for name, kind in self._types.items() if self.collated and kind == "VARCHAR"]
        return plain | dict.fromkeys(texts, _without_collation)

    @property
    def origins(self) -> tuple[str, ...]:
        """The files themselves: patterns and links are other names for them. In memory, the table of the connection."""
        return self._origins or ((self.identity,) if self.lasting else (".".join(self.location.qualified_name),))

    @property
    def anchor(self) -> object:
        """The connection."""
        return self.connection

    def find_unit_problem(self, unit: str) -> str | None:
        """Why the units of this column cannot be told apart; None if they can."""
        if self.files and read_physical_type(self.connection, self.files, unit) == "INT96":
            return "timestamps in Parquet's old form INT96 are read without their nanoseconds"
        return self.problem

    def _identity_reader(self, unit: str) -> ColumnReader:
        """Nanoseconds would be cut off by the reading as a timestamp, and two units be read as one."""
        if (column := self.identities) is not None:
            return lambda _: exp.column(exp.to_identifier(column, quoted=True))
        return {"TIMESTAMP_NS": _as_text, ZONED_NS: lambda column: _as_text(_in_utc(column))}.get(self._types[unit])

    def _public_table_expression(self, name: str) -> exp.Expr:
        return public_table_expression(self.public[name])

    def _build_source(self, bounded: BoundedQuery) -> exp.Expr:
        return self.part.restrict(super()._build_source(bounded), bounded.table.unit)

    def _execute_groups(
        self, statement: str, width: int, compile_part: Callable[[SqlEngine], str]
    ) -> Iterator[tuple[Any, ...]]:
        """If memory does not suffice for the whole, part by part."""

        def run(part: Part) -> Iterable[tuple[Any, ...]]:
            self.running = part
            return self._execute(compile_part(self._restrict_to(part)))

        shown = 0
        try:
            for row in self._execute(statement):
                shown += 1
                yield row
            return
        except OutOfMemory:
            if shown:
                raise OutOfResources from None
        try:
            yield from sum_over_parts(run, width)
        finally:
            self.running = WHOLE

    def _restrict_to(self, part: Part) -> "DuckDB":
        other = copy(self)
        other.part, other.dialect = part, replace(self.dialect, saturates=False)
        return other

    def _execute(self, statement: str) -> Iterator[tuple[Any, ...]]:
        """In batches, so that a million keys are never held at once."""
        try:
            result = self.connection.execute(statement)
            while batch := result.fetchmany(BATCH):
                yield from batch
        except duckdb.OutOfMemoryException as mistake:
            owner_log.warning("%s", mistake)
            raise OutOfMemory from None
        except RESOURCES as mistake:
            owner_log.warning("%s", mistake)
            raise OutOfResources from None
        except duckdb.Error as mistake:
            owner_log.warning("%s", mistake)
            raise EngineFailed from None

    def progress(self) -> float | None:
        """How much of the running statement is done, from 0 to 1; None if the connection keeps no count of it."""
        percent = self.connection.query_progress()
        return (self.running.index + min(percent, 100.0) / 100) / self.running.count if percent >= 0 else None


def _nothing_at(path: str) -> str:
    shown = format_path(path)
    return f"{shown} holds no Parquet file" if os.path.isdir(path) else f"there is no such file: {shown}"


_locks: WeakKeyDictionary[duckdb.DuckDBPyConnection, threading.Lock] = WeakKeyDictionary()


def _without_collation(column: exp.Expr) -> exp.Expr:
    """A text without its collation, which would make one group of texts that the hash and the keys tell apart: every
    person's share is bounded by the letters alone."""
    return exp.Collate(this=column, expression=exp.Var(this="C"))


def _as_text(column: exp.Expr) -> exp.Expr:
    return exp.cast(column, "VARCHAR", dialect="duckdb")


def _in_utc(column: exp.Expr) -> exp.Expr:
    return exp.Paren(this=exp.AtTimeZone(this=column, zone=exp.Literal.string("UTC")))


def _plain_type(kind: str) -> str | None:
    return READ_AS.get(kind.partition("(")[0])


def _to_utc_timestamp(column: exp.Expr) -> exp.Expr:
    """The same moment in UTC, without a zone. A cast would take the connection's zone; microseconds have none."""
    ends = [exp.Literal.string(text) for text in ("infinity", "-infinity")]
    ifs = [
        exp.If(this=exp.EQ(this=column, expression=exp.cast(end, "TIMESTAMPTZ")), true=exp.cast(end, "TIMESTAMP"))
        for end in ends
    ]
    micros = exp.Anonymous(this="epoch_us", expressions=[column])
    return exp.Case(ifs=ifs, default=exp.Anonymous(this="make_timestamp", expressions=[micros]))


def _reader_of(kind: str) -> ColumnReader:
    other = _plain_type(kind)
    if kind == ZONED:
        return _to_utc_timestamp
    if kind == ZONED_NS:
        return lambda column: exp.cast(_in_utc(column), "TIMESTAMP", dialect="duckdb")
    return None if other is None else lambda column: exp.cast(column, other, dialect="duckdb")
