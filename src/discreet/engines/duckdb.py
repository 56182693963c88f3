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

from discreet.address import shown_ending, shown_path
from discreet.engines.csv_file import place_csv
from discreet.engines.declared_kinds import ZONED, ZONED_NS, kind_of
from discreet.engines.duckdb_place import (
    Place,
    absolute,
    begun,
    connected,
    files_of_folder,
    find_table,
    locked,
    name_of_folder,
    own_place,
    real_path,
    refuse_closed_files,
    refuse_collation,
    refuse_without_access,
)
from discreet.engines.engine import Fingerprint, OutOfResources, Reading, SqlEngine, quoted, read_column
from discreet.engines.frames import copy_frame, unit_problem
from discreet.engines.lookup import MOST_ROWS, copy_lookup, lookup_table
from discreet.engines.owner import SAYS_MORE, log
from discreet.engines.parquet_files import fingerprint, parquet_type, place_parquet
from discreet.engines.parts import WHOLE, OutOfMemory, Part, added_up
from discreet.errors import EngineFailed, SourceRefused
from discreet.query.bound import Bounded
from discreet.query.table import Column, Kind, Lookup
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

READERS = {".csv": place_csv, ".tsv": place_csv, ".parquet": place_parquet}
_CSV = "check that it is CSV in UTF-8, with the same number of cells in every row"
FORMATS = {".csv": _CSV, ".tsv": _CSV, ".parquet": "check that it is Parquet"}
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
        place: Place | None = None,
        identity: str | None = None,
        collated: bool = True,
        identities: str | None = None,
        origins: Sequence[str] = (),
        files: Sequence[str] = (),
        problem: str | None = None,
    ) -> None:
        self.connection, self.table, self.place = connection, table, place or find_table(connection, table)
        self.turn = _turns.setdefault(
            connection, threading.Lock()
        )  # a connection has one result at a time, for all sessions
        self.collated = collated  # whether a text column may take different texts for equal
        self.identities = identities  # the column of our own that holds the units' identities, if theirs does not
        self.files = files  # that the table is read from at each question
        self._origins = tuple(origins)
        self.problem = problem  # why the units of a frame cannot be told apart
        self.computed = self.place.computed
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
            refuse_collation(source)
            return cls._of_database(source, table)
        if isinstance(source, str | Path):
            return cls._file(str(source), table, kinds, unit)
        return cls._frame(source, table or "data", kinds, unit)

    @classmethod
    def _of_database(cls, connection: duckdb.DuckDBPyConnection, table: str) -> "DuckDB":
        place = find_table(connection, table)
        return cls(connection, table, place=place, identity=place.home)

    @classmethod
    def _frame(cls, frame: Any, table: str, kinds: Mapping[str, Kind] | None, unit: str | None) -> "DuckDB":
        connection = begun()
        try:
            identities = copy_frame(connection, table, frame, kinds, unit)
        except SourceRefused:
            raise
        except Exception as mistake:  # cells are objects of anybody's, whose methods may raise anything
            log.warning("%s", mistake)
            raise SourceRefused(
                "this is not a table that can be read", "give a path, a frame, an Arrow table or a connection"
            ) from None
        problem = unit_problem(frame, unit)
        return cls(locked(connection), table, place=own_place(table), collated=False, identities=identities, problem=problem)

    @classmethod
    def _file(cls, path: str, table: str | None, kinds: Mapping[str, Kind] | None, unit: str | None) -> "DuckDB":
        suffix, name, pattern = Path(path).suffix.lower(), table or Path(path).stem, path
        refuse_without_access(path)
        if suffix in (".duckdb", ".db"):
            if table is None:
                raise SourceRefused("a database holds many tables", "say which with --table")
            return cls._of_database(locked(connected(path)), table)
        if os.path.isdir(path):
            suffix, name, pattern = ".parquet", table or name_of_folder(path), files_of_folder(path)
        if not suffix and "=" not in path and not os.path.exists(path):
            raise SourceRefused(_nothing_at(path), "check the path")
        if suffix not in READERS:
            raise SourceRefused(
                f"{shown_ending(path, suffix)} is not a kind of file that can be read",
                "give .csv, .parquet or .duckdb, or a folder of Parquet files",
            )
        connection = begun()
        try:
            files = [row[0] for row in connection.execute("SELECT file FROM glob(?)", [pattern]).fetchall()]
            if not files:
                raise SourceRefused(_nothing_at(path), "check the path")
            refuse_closed_files(files, path)
            identities = READERS[suffix](connection, name, files, kinds, unit)
        except duckdb.Error as mistake:
            log.warning("%s", mistake)
            reason = f"{shown_path(path)} cannot be read"
            raise SourceRefused(reason, f"{FORMATS[suffix]}; {SAYS_MORE}") from None
        read_again = files if suffix == ".parquet" else []
        connection = locked(connection, read_again)
        return cls(
            connection,
            name,
            place=own_place(name),
            identity=absolute(path),
            collated=False,
            identities=identities,
            origins=[real_path(file) for file in files],
            files=read_again,
        )

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
                raise SourceRefused(f"the public table {name} cannot be copied", SAYS_MORE) from None
        beside = copy(self)
        beside.public = MappingProxyType(places)
        return beside, lookups

    def contents(self) -> tuple[dict[str, Kind], list[tuple[Any, ...]]]:
        """Every row. Only a public table is read like this."""
        kinds, types = {name: column.kind for name, column in self.columns().items()}, self._types
        if not kinds:
            raise SourceRefused(f"no column of {self.table} can be read", "give numbers, texts, dates or truth values")
        columns = [read_column(name, _reading(types[name])) for name in kinds]
        try:
            found = self.connection.execute(exp.select(*columns).from_(self._place()).sql(dialect="duckdb"))
            rows = found.fetchmany(MOST_ROWS + 1)
        except duckdb.Error as mistake:
            log.warning("%s", mistake)
            raise SourceRefused(f"{self.table} cannot be read", SAYS_MORE) from None
        if len(rows) > MOST_ROWS:
            raise SourceRefused(f"{self.table} has more than {MOST_ROWS:,} rows", "join to a shorter public table")
        return kinds, rows

    def columns(self) -> dict[str, Column]:
        """Names and kinds of the columns. No value is read."""
        kinds = {name: kind_of(held) for name, held in self._types.items()}
        return {name: Column(kind) for name, kind in kinds.items() if kind is not None and name != self.identities}

    @cached_property
    def _types(self) -> dict[str, str]:
        """As they were when the source was opened, which is what was declared."""
        try:
            described = self.connection.sql(exp.select("*").from_(self._place()).sql(dialect="duckdb"))
            return dict(zip(described.columns, map(str, described.types), strict=True))
        except duckdb.Error as mistake:
            log.warning("%s", mistake)
            raise SourceRefused("this table cannot be read", f"check its name; {SAYS_MORE}") from None

    def fingerprint(self, columns: Collection[str]) -> Fingerprint | None:
        """Parquet is known by its files; what a view computes can be known by nothing, and is read again each time."""
        if self.files:
            return Fingerprint(fingerprint(self.connection, self.files, columns))
        return Fingerprint(None) if self.computed else None

    def _place(self) -> exp.Expr:
        return quoted(*self.place.name)

    def _readings(self) -> dict[str, Reading]:
        plain = {name: _reading(kind) for name, kind in self._types.items()}
        texts = [name for name, kind in self._types.items() if self.collated and kind == "VARCHAR"]
        return plain | dict.fromkeys(texts, _letters)

    @property
    def origins(self) -> tuple[str, ...]:
        """The files themselves: patterns and links are other names for them. In memory, the table of the connection."""
        return self._origins or ((self.identity,) if self.lasting else (".".join(self.place.name),))

    @property
    def anchor(self) -> object:
        """The connection."""
        return self.connection

    def unit_problem(self, unit: str) -> str | None:
        """Why the units of this column cannot be told apart; None if they can."""
        if self.files and parquet_type(self.connection, self.files, unit) == "INT96":
            return "timestamps in Parquet's old form INT96 are read without their nanoseconds"
        return self.problem

    def _identity(self, unit: str) -> Reading:
        """Nanoseconds would be cut off by the reading as a timestamp, and two units be read as one."""
        if (column := self.identities) is not None:
            return lambda _: exp.column(exp.to_identifier(column, quoted=True))
        return {"TIMESTAMP_NS": _as_text, ZONED_NS: lambda column: _as_text(_in_utc(column))}.get(self._types[unit])

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
                raise OutOfResources from None
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
        except RESOURCES as mistake:
            log.warning("%s", mistake)
            raise OutOfResources from None
        except duckdb.Error as mistake:
            log.warning("%s", mistake)
            raise EngineFailed from None

    def progress(self) -> float | None:
        """How much of the running statement is done, from 0 to 1; None if the connection keeps no count of it."""
        percent = self.connection.query_progress()
        return (self.running.index + min(percent, 100.0) / 100) / self.running.count if percent >= 0 else None


def _nothing_at(path: str) -> str:
    shown = shown_path(path)
    return f"{shown} holds no Parquet file" if os.path.isdir(path) else f"there is no such file: {shown}"


_turns: WeakKeyDictionary[duckdb.DuckDBPyConnection, threading.Lock] = WeakKeyDictionary()


def _letters(column: exp.Expr) -> exp.Expr:
    """A text without its collation, which would make one group of texts that the hash and the keys tell apart: every
    person's share is bounded by the letters alone."""
    return exp.Collate(this=column, expression=exp.Var(this="C"))


def _as_text(column: exp.Expr) -> exp.Expr:
    return exp.cast(column, "VARCHAR", dialect="duckdb")


def _in_utc(column: exp.Expr) -> exp.Expr:
    return exp.Paren(this=exp.AtTimeZone(this=column, zone=exp.Literal.string("UTC")))


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
    if kind == ZONED_NS:
        return lambda column: exp.cast(_in_utc(column), "TIMESTAMP", dialect="duckdb")
    return None if other is None else lambda column: exp.cast(column, other, dialect="duckdb")
