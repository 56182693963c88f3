"""DuckDB, embedded: the engine for files, frames and DuckDB's own databases.

The connection is locked once the source is in place: it then reaches no file, network, extension or setting. Whatever the
engine raises becomes one constant message, because its text may hold a value.

**Parts.** If memory does not suffice for a query, it runs in parts. A part has some of the units, each with all its rows,
and every unit is in exactly one part. So the contribution of a unit is bounded in its part as it would be in the whole, and
totals over all units are the sums of the totals over the parts. They are saturated at 64 bits once, in the end: the number
of parts depends on the data, and must make no difference to any total.
"""

import os
import re
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from glob import has_magic
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4
from weakref import WeakKeyDictionary

import duckdb
from sqlglot import exp

from discreet.engines.base import (
    BLOCK,
    SAYS_MORE,
    Fingerprint,
    OutOfResources,
    SqlEngine,
    decode_rows,
    owner_log,
    quote_table,
)
from discreet.engines.duckdb.connection import (
    WILDCARDS,
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
from discreet.engines.duckdb.files import (
    compute_parquet_fingerprint,
    create_parquet_view,
    load_arrow,
    load_csv,
    read_physical_type,
)
from discreet.engines.duckdb.frames import copy_frame, find_frame_unit_problem
from discreet.engines.duckdb.prepared import ROWS, PreparedFile, attach_output, read_preparation
from discreet.engines.duckdb.public_tables import MAX_ROWS, copy_public_table, public_table_expression
from discreet.engines.duckdb.types import Loaded, identity_reader_of, kind_of, quote_name, reader_of
from discreet.errors import EngineFailed, SourceRefused, raise_interrupts
from discreet.paths import format_path, format_suffix
from discreet.query.schema import Column, Kind, PublicTable, Table, parse_unit
from discreet.sql.dialects import DUCKDB, SATURATION_LIMIT, column, int_literal, shorten_name

if TYPE_CHECKING:
    from discreet.query import ast
    from discreet.query.cells import CellBlock
    from discreet.query.contribution import BoundedQuery
    from discreet.query.statistics import CellCounts


def _load_json_lines(*given: Any) -> Loaded:
    from discreet.engines.duckdb.rows import load_json_lines  # cells that are objects need NumPy

    return load_json_lines(*given)


def _load_sheet(*given: Any, sheet: str | None = None) -> Loaded:
    from discreet.engines.duckdb.rows import load_sheet  # cells that are objects need NumPy

    return load_sheet(*given, sheet=sheet)


_CSV = (load_csv, "check that it is CSV in UTF-8, with the same number of cells in every row")
_JSON_LINES = (_load_json_lines, "check that each line is one JSON object")
_ARROW = (load_arrow, "check that it is Arrow")
READERS: dict[str, tuple[Callable[..., Loaded], str]] = {
    **{f"{suffix}{end}": _CSV for suffix in (".csv", ".tsv") for end in ("", ".gz", ".zst")},
    **{f"{suffix}{end}": _JSON_LINES for suffix in (".jsonl", ".ndjson") for end in ("", ".gz")},
    **dict.fromkeys((".arrow", ".feather"), _ARROW),
    ".xlsx": (_load_sheet, "check that it is .xlsx"),
    ".parquet": (create_parquet_view, "check that it is Parquet"),
}
"""How files are read, by the ends of their names, and what to check if one cannot be read."""
TYPED = (".parquet", ".arrow", ".feather")
"""The ends of names of files whose columns have types of their own."""
_SHEET = re.compile(r"(.*\.xlsx)#(.+)", re.IGNORECASE | re.DOTALL)
RESOURCES = (duckdb.IOException, duckdb.InterruptException, duckdb.ConnectionException, duckdb.HTTPException)
RESOURCE_MESSAGES = ("IO Error", "INTERRUPT Error", "Connection Error", "HTTP Error")
"""How the messages of `RESOURCES` begin."""
BATCH = 20_000
PART_COUNTS = (8, 64, 512)
"""Into how many parts a query is split, one after the other, while memory does not suffice."""


class OutOfMemory(OutOfResources):
    """The engine had too little memory for a statement."""


@dataclass(frozen=True, slots=True)
class Part:
    """The units whose hash has the remainder `index` when divided by `count`."""

    index: int
    count: int

    def restrict(self, source: exp.Expr, unit: Sequence[str]) -> exp.Expr:
        """Keep the rows of these units, which these columns identify. A unit is no real number and has no collation, so
        equal units have equal hashes. Where each row is a unit, any columns will do: a row has one hash."""
        hashed = exp.Anonymous(this="hash", expressions=[column(shorten_name(name)) for name in unit])
        remainder = exp.Mod(this=hashed, expression=int_literal(self.count))
        return (
            exp.select("*")
            .from_(source)
            .where(exp.EQ(this=remainder, expression=int_literal(self.index)), copy=False)
            .subquery()
        )


WHOLE = Part(0, 1)


NOT_LOADED = Loaded({}, ())
"""A table that is read where it is."""


class DuckDB(SqlEngine):
    """One source in one connection."""

    dialect = DUCKDB
    preparation: PreparedFile | None

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        table: str,
        public: Mapping[str, str] = MappingProxyType({}),
        *,
        location: TableLocation | None = None,
        identity: str | None = None,
        collated: bool = True,
        loaded: Loaded = NOT_LOADED,
        origins: Sequence[str] = (),
        files: Sequence[str] = (),
        preparation: PreparedFile | None = None,
    ) -> None:
        """`collated`: a text column may have a collation. `loaded`: what we know of a source that we made a table of.
        `files`: those that every query reads."""
        self.preparation, self.stored_identities = preparation, loaded.identities
        self.connection, self.location = connection, location or find_table(connection, table)
        self.files, self.problem = files, loaded.problem
        relation = quote_table(*self.location.qualified_name)
        self.types = _describe_types(connection, self.location)  # as they were when the source was opened and declared
        hidden = {*loaded.identities.values(), *(() if preparation is None else preparation.hidden)}
        readers = {name: reader_of(held, collated) for name, held in self.types.items() if name not in hidden}
        identities = {name: read(column(name)) for name, held in self.types.items() if (read := identity_reader_of(held))}
        identities |= {unit: column(name) for unit, name in loaded.identities.items()}
        super().__init__(
            table,
            identity or f"in memory, {uuid4().hex}",  # a source without an address is like no other
            relation,
            readers,
            identities=identities,
            lasting=identity is not None,
            computed=self.location.computed,
            names=loaded.names,
        )
        self.public = public
        if origins:
            self.origins = tuple(origins)
        elif not self.lasting:
            self.origins = (".".join(self.location.qualified_name),)
        self.lock = _locks.setdefault(connection, threading.Lock())  # a connection has one result at a time
        self.running = WHOLE  # the part that the running statement reads
        self.look_again: Callable[[], bool] | None = None  # whether files came or went, or changed after they were copied

    # -- opening ---------------------------------------------------------------------------------------------------------

    @classmethod
    @raise_interrupts()
    def open(
        cls,
        source: Any,
        table: str | None = None,
        kinds: Mapping[str, Kind] | None = None,
        unit: str | None = None,
        *,
        claimed_identity: str | None = None,
        output: str | None = None,
    ) -> "DuckDB":
        """Open a CSV, Parquet, JSON lines, Arrow or Excel file (globs too), a folder of Parquet files, a DuckDB file or
        connection, an Arrow table, a pandas or Polars frame.

        `kinds` says what the columns of a file or a frame without types of its own hold; without them it is inferred from
        the values. `unit` is the privacy unit in words: the cells of its columns are read as identities.
        `claimed_identity` is that of a frame to which its owner gives a name. `output` is a database that the connection can
        write to, for a file that is prepared.
        """
        if output is not None:
            return cls._from_file(str(source), table, kinds, unit, output)
        if isinstance(source, duckdb.DuckDBPyConnection):
            if table is None:
                raise SourceRefused("a connection holds many tables", "say which with table=")
            check_collation(source)
            return cls._from_database(source, table)
        if isinstance(source, str | Path):
            return cls._from_file(str(source), table, kinds, unit)
        return cls._from_frame(source, table or "data", kinds, unit, claimed_identity)

    @classmethod
    def _from_database(cls, connection: duckdb.DuckDBPyConnection, table: str) -> "DuckDB":
        location = find_table(connection, table)
        return cls(connection, table, location=location, identity=location.durable_address)

    @classmethod
    def _from_frame(
        cls, frame: Any, table: str, kinds: Mapping[str, Kind] | None, unit: str | None, identity: str | None
    ) -> "DuckDB":
        connection, units = new_connection(), () if unit is None else parse_unit(unit)
        try:
            with raise_interrupts():
                loaded = copy_frame(connection, table, frame, kinds, units)
        except SourceRefused:
            raise
        except Exception as error:  # cells are objects of any class, and their methods may raise anything
            owner_log.warning("%s", error)
            raise SourceRefused(
                f"{type(frame).__name__} is not a table that can be read",
                "give a path, a pandas or Polars frame, an Arrow table or a DuckDB connection",
            ) from None
        return cls(
            lock_down(connection),
            table,
            location=own_location(table),
            identity=identity,
            collated=False,
            loaded=replace(loaded, problem=find_frame_unit_problem(frame, units)),
        )

    @classmethod
    def _from_prepared(cls, connection: duckdb.DuckDBPyConnection, table: str | None, prepared: PreparedFile) -> "DuckDB":
        import_module("discreet.sql.prepared")  # before a query is paid for
        prepared.warn_if_changed()

        location = find_table(connection, ROWS)
        engine = cls(
            connection,
            table or prepared.table,
            location=location,
            identity=location.durable_address,
            collated=False,
            loaded=prepared.loaded,
            preparation=prepared,
        )
        engine.inferred = prepared.inferred
        return engine

    @classmethod
    def _from_file(
        cls,
        path: str,
        table: str | None,
        kinds: Mapping[str, Kind] | None,
        unit: str | None,
        output: str | None = None,
    ) -> "DuckDB":
        path, sheet = split_sheet(path)
        stem, suffix = split_suffix(path)
        name, pattern = table or stem, path
        refuse_without_access(path)
        if suffix in (".duckdb", ".db"):
            if "://" not in path and not os.path.exists(path):
                raise _nothing_at(path)
            connection = open_database(path)
            if (prepared := read_preparation(connection)) is not None:
                return cls._from_prepared(connection, table, prepared)
            if table is None:
                raise SourceRefused("a database holds many tables", "say which with table=")
            return cls._from_database(connection, table)
        if os.path.isdir(path):
            suffix, name, pattern = ".parquet", table or name_of_folder(path), files_of_folder(path)
        if not suffix and "=" not in path and not os.path.exists(path):
            raise _nothing_at(path)
        if suffix not in READERS:
            raise SourceRefused(
                f"{format_suffix(path, suffix)} is not a kind of file that can be read",
                "give .csv, .parquet, .jsonl, .xlsx, .arrow or .duckdb, or a folder of Parquet files",
            )
        load, hint = READERS[suffix]
        connection, units = new_connection(), () if unit is None else parse_unit(unit)
        try:
            files = _list_files(connection, pattern)
            if not files:
                raise _nothing_at(path)
            is_copied = suffix != ".parquet"
            known = _stamp_files(files, is_copied)  # before they are read, so that what comes meanwhile is noticed
            refuse_closed_files(files, path)
            chosen = {} if sheet is None else {"sheet": sheet}
            loaded = load(connection, name, files, kinds, units, **chosen)
            if output is not None:
                attach_output(connection, output)
        except duckdb.Error as error:
            owner_log.warning("%s", error)
            raise SourceRefused(f"{format_path(path)} cannot be read", f"{hint}; {SAYS_MORE}") from None
        read_again = [] if is_copied else files
        engine = cls(
            lock_down(connection, read_again),
            name,
            location=own_location(name),
            identity=absolute_path(path) + (loaded.part or ""),
            collated=False,
            loaded=loaded,
            origins=[real_path(file) for file in files],  # patterns and links are other names for them
            files=read_again,
        )
        engine.inferred = kinds is None and suffix not in TYPED
        engine.look_again = lambda: _are_other_files(pattern, files, is_copied, known)
        return engine

    # -- what it holds ---------------------------------------------------------------------------------------------------

    def describe_columns(self) -> dict[str, Column]:
        """Return the names and kinds of the columns. No value is read."""
        kinds = {name: kind_of(self.types[name]) for name in self.columns}
        return {name: Column(kind) for name, kind in kinds.items() if kind is not None}

    @property
    def anchor(self) -> object:
        """The connection."""
        return self.connection

    def has_new_files(self) -> bool:
        """Whether files came or went since the source was opened, or changed after their rows were copied."""
        return self.look_again is not None and self.look_again()

    @raise_interrupts()
    def find_unit_problem(self, unit: str) -> str | None:
        """Say why two units of this column could be read as one; None if they cannot."""
        if self.files and read_physical_type(self.connection, self.files, unit) == "INT96":
            return "timestamps in Parquet's old form INT96 are read without their nanoseconds"
        return self.problem

    @raise_interrupts()
    def compute_fingerprint(self, columns: Collection[str]) -> Fingerprint | None:
        """Parquet is known by its files. A view is known by nothing, and its cells are read again each time."""
        if self.files:
            return Fingerprint(compute_parquet_fingerprint(self.connection, self.files, columns))
        return Fingerprint(None) if self.computed else None

    @raise_interrupts()
    def with_public(self, sources: Mapping[str, Any]) -> tuple[Self, dict[str, PublicTable]]:
        """Return the same source beside copies of these public tables, which may be any source. Their rows pass through
        Python, so that the locked connection needs to reach nothing new."""
        names, tables = dict(self.public), {}
        for name, source in sources.items():
            kinds, rows = DuckDB.open(source, name).read_all()
            try:
                names[name], tables[name] = copy_public_table(self.connection, name, kinds, rows)
            except duckdb.Error as error:
                owner_log.warning("%s", error)
                raise SourceRefused(f"the public table {name} cannot be copied", SAYS_MORE) from None
        return self._beside(names), tables

    @raise_interrupts()
    def read_all(self) -> tuple[dict[str, Kind], list[tuple[Any, ...]]]:
        """Return the kinds of the columns, and every row. Only a public table is read like this."""
        kinds = {name: each.kind for name, each in self.describe_columns().items()}
        if not kinds:
            raise SourceRefused(f"no column of {self.table} can be read", "give numbers, texts, dates or truth values")
        columns = [self.columns[name].copy() for name in kinds]
        try:
            found = self.connection.execute(exp.select(*columns).from_(self.relation.copy()).sql(dialect="duckdb"))
            rows = found.fetchmany(MAX_ROWS + 1)
        except duckdb.Error as error:
            owner_log.warning("%s", error)
            raise SourceRefused(f"{self.table} cannot be read", SAYS_MORE) from None
        if len(rows) > MAX_ROWS:
            raise SourceRefused(f"{self.table} has more than {MAX_ROWS:,} rows", "join to a shorter public table")
        return kinds, rows

    def _public_relation(self, name: str) -> exp.Expr:
        return public_table_expression(self.public[name])

    # -- running ---------------------------------------------------------------------------------------------------------

    def _execute_groups(
        self, statement: str, bounded: "BoundedQuery", counts: "CellCounts | None" = None
    ) -> Iterator[tuple[tuple[int, ...], tuple[Any, ...]]]:
        """If memory does not suffice for the whole, run part by part, where totals over units add up."""
        width = len(bounded.totals) if counts is None else 1
        adds_up = counts is not None or all(each.adds_up_over_units for each in bounded.totals)

        def run(part: Part) -> Iterable[tuple[Any, ...]]:
            self.running = part
            return self._execute(_PartOfDuckDB(self, part)._compile(bounded, counts))

        begun = False
        try:
            for each in decode_rows(self._execute(statement), self.dialect, bounded, counts):
                begun = True
                yield each
            return
        except OutOfMemory:
            if begun or not adds_up:
                raise OutOfResources from None
        try:
            yield from decode_rows(sum_over_parts(run, width), self.dialect, bounded, counts)
        finally:
            self.running = WHOLE

    def _execute(self, statement: str) -> Iterator[tuple[Any, ...]]:
        """In batches, so that a million keys are never held at once."""
        try:
            with raise_interrupts():
                result = self.connection.execute(statement)
                while batch := result.fetchmany(BATCH):
                    yield from batch
        except duckdb.Error as error:
            raise _to_engine_error(error) from None

    def _execute_blocks(self, statement: str, columns: int) -> "Iterator[CellBlock]":
        """Read columns through Arrow, if it is installed, and rows otherwise, which takes ten times as long."""
        if find_spec("pyarrow") is None:
            yield from super()._execute_blocks(statement, columns)
            return
        reader: Any = None
        try:
            with raise_interrupts():
                reader = self.connection.sql(statement).to_arrow_reader(BLOCK)
                for batch in reader:
                    yield _to_block(batch)
        except Exception as error:  # Arrow raises an OSError where the engine fails after the first block
            raise _to_engine_error(error) from None
        finally:
            if reader is not None:
                reader.close()

    def _compile_anew(self, bounded: "BoundedQuery", counts: "CellCounts | None") -> str:
        """A statement for a prepared table, if it was prepared for this unit and salt and a unit may have several rows. Else
        its columns are read as any table's."""
        prepared, table = self.preparation, bounded.table
        if prepared is None or not prepared.fits(table) or table.unique:
            return super()._compile_anew(bounded, counts)
        from discreet.query.contribution import FIRST_BOUNDING
        from discreet.sql.prepared import lower_prepared

        if bounded.bounding == FIRST_BOUNDING:
            return super()._compile_anew(bounded, counts)
        source, _ = self._build_source(table, bounded.query.joins, prepared.hidden)
        own = self._list_own(table, bounded.query.joins)
        columns = prepared.to_columns(self.location.qualified_name[0], own)
        return lower_prepared(bounded, counts, source, columns, self.dialect).sql(dialect=self.dialect.name, copy=False)

    @raise_interrupts()
    def run_statement(self, statement: str) -> None:
        """Run a statement that returns nothing: for what the data owner prepares."""
        try:
            self.connection.execute(statement)
        except duckdb.Error as error:
            raise _to_engine_error(error) from None

    def progress(self) -> float | None:
        """Return how much of the running statement is done, from 0 to 1; None if the connection does not count it."""
        percent = self.connection.query_progress()
        return (self.running.index + min(percent, 100.0) / 100) / self.running.count if percent >= 0 else None

    def cancel(self) -> None:
        """As in `Engine`."""
        self.connection.interrupt()


def _to_block(batch: Any) -> "CellBlock":
    import numpy

    from discreet.query.cells import CellBlock

    totals, *codes = batch.columns
    block = CellBlock(numpy.empty((batch.num_rows, len(codes)), numpy.int64), totals.to_numpy().astype(numpy.int64))
    for i, code in enumerate(codes):
        block.codes[:, i] = code.to_numpy()
    return block


def _to_engine_error(error: Exception) -> EngineFailed:
    """Return the constant error for what DuckDB raised, or Arrow with a message of DuckDB's, which begins with its kind."""
    owner_log.warning("%s", error)
    message = "" if isinstance(error, duckdb.Error) else str(error)
    if isinstance(error, duckdb.OutOfMemoryException | MemoryError) or message.startswith("Out of Memory Error"):
        return OutOfMemory()
    return OutOfResources() if isinstance(error, RESOURCES) or message.startswith(RESOURCE_MESSAGES) else EngineFailed()


class _PartOfDuckDB(DuckDB):
    """The same source, with statements that read the units of one part and do not saturate their totals."""

    def __init__(self, whole: DuckDB, part: Part) -> None:
        vars(self).update(vars(whole))
        self.part, self.dialect, self._compiled = part, replace(whole.dialect, saturates=False), {}

    def _build_source(
        self, table: Table, joins: "tuple[ast.Join, ...]" = (), internal: Collection[str] = ()
    ) -> tuple[exp.Expr, str | None]:
        source, unit = super()._build_source(table, joins, internal)
        return self.part.restrict(source, list(table.columns) if unit is None else [unit]), unit


def sum_over_parts(run: Callable[[Part], Iterable[tuple[Any, ...]]], width: int) -> Iterator[tuple[Any, ...]]:
    """Add up rows of `width` totals, and what they are totals of, over parts that are small enough."""
    for count in PART_COUNTS:
        try:
            sums = _add_rows((row for index in range(count) for row in run(Part(index, count))), width)
        except OutOfMemory:
            continue
        return (
            (*(max(-SATURATION_LIMIT, min(total, SATURATION_LIMIT)) for total in totals), *rest)
            for rest, totals in sums.items()
        )
    raise OutOfResources


def _add_rows(rows: Iterable[tuple[Any, ...]], width: int) -> dict[tuple[Any, ...], tuple[int, ...]]:
    sums: dict[tuple[Any, ...], tuple[int, ...]] = {}
    for row in rows:
        totals, rest = row[:width], row[width:]
        before = sums.get(rest)
        sums[rest] = totals if before is None else tuple(map(int.__add__, before, totals))
    return sums


_locks: WeakKeyDictionary[duckdb.DuckDBPyConnection, threading.Lock] = WeakKeyDictionary()


def _describe_types(connection: duckdb.DuckDBPyConnection, location: TableLocation) -> dict[str, str]:
    try:
        described = connection.sql(f"SELECT * FROM {'.'.join(map(quote_name, location.qualified_name))}")
        return dict(zip(described.columns, map(str, described.types), strict=True))
    except duckdb.Error as error:
        owner_log.warning("%s", error)
        raise SourceRefused("this table cannot be read", f"check its name; {SAYS_MORE}") from None


def split_suffix(path: str) -> tuple[str, str]:
    """What stands before the end of a file's name that says how it is read, and that end.

    >>> split_suffix("data/people.csv.gz"), split_suffix("People.XLSX"), split_suffix("people.v1")
    (('people', '.csv.gz'), ('People', '.xlsx'), ('people', '.v1'))
    """
    name = Path(path).name
    known = max((suffix for suffix in READERS if name.lower().endswith(suffix)), key=len, default=Path(name).suffix.lower())
    return (name[: -len(known)], known) if known and len(known) < len(name) else (Path(name).stem, Path(name).suffix.lower())


def split_sheet(path: str) -> tuple[str, str | None]:
    """The path of a workbook, and the sheet that is named after it, unless a file has just this name.

    >>> split_sheet("people.xlsx#Sheet 1"), split_sheet("people.csv")
    (('people.xlsx', 'Sheet 1'), ('people.csv', None))
    """
    found = _SHEET.fullmatch(path)
    return (path, None) if found is None or os.path.exists(path) else (found[1], found[2])


_STATEMENT = re.compile(r"\s*(SELECT|FROM|WITH)\s", re.IGNORECASE)


def _nothing_at(path: str) -> SourceRefused:
    shown = format_path(path)
    if os.path.isdir(path):
        return SourceRefused(f"{shown} holds no Parquet file", "check the path")
    if _STATEMENT.match(path):
        return SourceRefused(f"there is no such file: {shown}", "name the file first, and then the query")
    return SourceRefused(f"there is no such file: {shown}", "check the path")


def _list_files(connection: duckdb.DuckDBPyConnection, pattern: str) -> list[str]:
    return [row[0] for row in connection.execute("SELECT file FROM glob(?)", [pattern]).fetchall()]


def _stamp_files(files: Sequence[str], is_copied: bool) -> list[tuple[Any, ...]]:
    """Return what shows whether files are the same: their names, and of copied ones what a change of their rows changes."""
    stats = [os.stat(file) for file in files] if is_copied else []
    return sorted((file,) for file in files) + [(each.st_ino, each.st_size, each.st_mtime_ns) for each in stats]


def _are_other_files(pattern: str, files: Sequence[str], is_copied: bool, known: list[tuple[Any, ...]]) -> bool:
    """Whether there are other files by now; only a pattern is listed again, which takes milliseconds."""
    try:
        listed = _list_files(duckdb.connect(), pattern) if has_magic(pattern) else files
        return _stamp_files(listed, is_copied) != known
    except OSError:
        return True


def name_of_glob(source: Any) -> str | None:
    """A name for a glob, which has none of its own: what stands before the first wildcard. None for any other source."""
    if not isinstance(source, str | Path) or not any(mark in str(source) for mark in WILDCARDS) or os.path.isdir(source):
        return None
    stem = Path(str(source)).name
    for mark in WILDCARDS:
        stem = stem.partition(mark)[0]
    return stem.rstrip("-_.") or "data"
