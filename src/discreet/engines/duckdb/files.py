"""CSV, Parquet and Arrow files as tables of DuckDB.

**CSV**, which may be compressed with gzip or zstd. Every cell is read as text, and then as the kind of its column. With a
policy, no type, delimiter or quote is inferred from values: the delimiter is the one that splits the header, which is
public, into the declared names. Without a policy, kinds and delimiter are inferred from the first rows. Either way a cell
that does not fit its column is NULL, so what a cell means depends on that cell alone; an empty cell is NULL too, with or
without quotes. A unit is identified by the text of its cell (see `types`).

**Parquet** files stay where they are. Columns that are folders (region=north/…) are texts, read by their declared kind like
the cells of a CSV file: with inferred types, one person's folder would change the kind of a column. Types that differ
between files are found from the metadata when the source is opened: a query would fail where it meets the other type, and so
reveal which row is in which file.

**Arrow** files (Feather is one) are read whole, and then as a frame is (see `frames`).
"""

import csv
import gzip
import os
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import PurePath
from typing import Any

import duckdb

from discreet.engines.base import SAYS_MORE, VALIDATE, identity_columns, owner_log
from discreet.engines.duckdb.frames import copy_frame, find_frame_unit_problem
from discreet.engines.duckdb.types import ZONED, Loaded, quote_name, quote_text, quote_texts, read_text_as
from discreet.errors import SourceRefused
from discreet.query.schema import MAX_LISTED, Kind

DELIMITERS = (",", ";", "\t", "|")


@dataclass(frozen=True, slots=True)
class CsvLayout:
    """How a file is split into cells, and what their columns are called."""

    names: Sequence[str]
    delimiter: str
    quote: str = '"'
    escape: str = '"'
    header: bool = True
    skip: int = 0

    @property
    def options(self) -> str:
        """The layout as arguments of read_csv."""
        columns = ", ".join(f"'c{i}': 'VARCHAR'" for i in range(len(self.names)))
        marks = {"delim": self.delimiter, "quote": self.quote, "escape": self.escape}
        quoted = ", ".join(f"{name} = {quote_text(mark)}" for name, mark in marks.items())
        return f"auto_detect = false, header = {self.header}, skip = {self.skip}, {quoted}, columns = {{{columns}}}"


def load_csv(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    files: Sequence[str],
    kinds: Mapping[str, Kind] | None,
    units: Sequence[str] = (),
) -> Loaded:
    """Read the declared columns, or all of them, into a table.

    Texts are stored first and then cast: DuckDB would move the cast into its CSV reader, where a cell that does not fit
    raises even in a TRY_CAST.
    """
    _refuse_empty(files)
    if kinds is None:
        layout, kinds = _infer_layout(connection, files)
    else:
        layout = _layout_for_kinds(files, kinds)
    columns = [_column_sql(f"c{i}", column, kinds[column]) for i, column in enumerate(layout.names) if column in kinds]
    if not columns:
        names = ", ".join(layout.names[:MAX_LISTED]) + ", …" * (len(layout.names) > MAX_LISTED)
        reason = "the header of this file has no column of the policy, which is for another table"
        raise SourceRefused(reason, f"the file has {names}", parameter="policy")
    numbers = [unit for unit in units if unit in layout.names and kinds.get(unit) is not Kind.TEXT]
    identities = identity_columns(numbers, layout.names)
    columns += [f"c{layout.names.index(unit)} AS {quote_name(identity)}" for unit, identity in identities.items()]
    raw = quote_name(f"{name} as text")
    read = f"read_csv({quote_texts(files)}, {layout.options}, compression = '{compression_of(files[0])}')"
    try:
        connection.execute(f"CREATE TEMP TABLE {raw} AS SELECT * FROM {read}")
    except duckdb.InvalidInputException as error:
        if "Expected Number of Columns" not in str(error):
            raise
        owner_log.warning("%s", error)
        raise _ragged_error(len(layout.names)) from None
    connection.execute(f"CREATE TABLE {quote_name(name)} AS SELECT {', '.join(columns)} FROM {raw}")
    connection.execute(f"DROP TABLE {raw}")
    return Loaded(identities, layout.names)


COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}


def compression_of(file: str) -> str:
    """How a file is compressed, by the end of its name."""
    return COMPRESSIONS.get(PurePath(file).suffix.lower(), "none")


def _ragged_error(cells: int) -> SourceRefused:
    """The refusal of a file with a row that is too long or too short. Which one is for the owner's log."""
    return SourceRefused(
        f"a row of this file does not have as many cells as its header, which has {cells}",
        f"put cells that hold a delimiter in double quotes; {SAYS_MORE}",
    )


def _column_sql(cell: str, column: str, kind: Kind) -> str:
    return f"{read_text_as(kind, cell)} AS {quote_name(column)}"


INFERRED = {
    "BIGINT": Kind.INTEGER, "DOUBLE": Kind.REAL, "BOOLEAN": Kind.BOOLEAN, "DATE": Kind.DATE, "TIMESTAMP": Kind.TIMESTAMP,
    ZONED: Kind.TIMESTAMP,
}  # fmt: skip
_SNIFF = "SELECT Delimiter, Quote, Escape, HasHeader, SkipRows, Columns FROM sniff_csv(?, compression = ?)"


def _infer_layout(connection: duckdb.DuckDBPyConnection, files: Sequence[str]) -> tuple[CsvLayout, dict[str, Kind]]:
    """Infer layout and kinds from the first rows of the first file."""
    found = connection.execute(_SNIFF, [files[0], compression_of(files[0])]).fetchone()
    assert found is not None
    *marks, header, skip, columns = found
    delimiter, quote, escape = (mark.replace("\\t", "\t").replace("(empty)", "") for mark in marks)
    widest = max(len(_read_header(files[0], each)) for each in DELIMITERS)
    if (skip and not header) or (len(columns) == 1 < widest and not skip):  # lines that fit no other are taken for comments
        raise _ragged_error(widest)
    layout = CsvLayout([column["name"] for column in columns], delimiter, quote or '"', escape or '"', header, skip)
    if header:
        headers = {tuple(_read_header(file, delimiter, skip)) for file in files}
        if len(headers) > 1:
            raise SourceRefused("these files have different headers", "give each the same columns in the same order")
        names = headers.pop()
        _refuse_duplicates([stripped for name in names if (stripped := name.strip(" "))])  # as DuckDB takes them
    return layout, {column["name"]: INFERRED.get(column["type"], Kind.TEXT) for column in columns}


def _layout_for_kinds(files: Sequence[str], kinds: Mapping[str, Kind]) -> CsvLayout:
    """The layout with the delimiter that splits the header into most of the declared names."""
    found = {delimiter: [_read_header(file, delimiter) for file in files] for delimiter in DELIMITERS}
    if not all(found[","]):
        raise SourceRefused("this file has no header", "put the names of the columns in its first line")
    delimiter = max(DELIMITERS, key=lambda each: len(set(found[each][0]) & set(kinds)))
    header = found[delimiter][0]
    if any(other != header for other in found[delimiter]):
        raise SourceRefused("these files have different headers", "give each the same columns in the same order")
    _refuse_duplicates([name for name in header if name in kinds])
    return CsvLayout(header, delimiter)


def _refuse_duplicates(names: Sequence[str]) -> None:
    """Refuse two columns of one name, also if only the case of the letters a to z tells them apart: DuckDB would give the
    second another one."""
    earlier: dict[bytes, str] = {}
    for name in names:
        other = earlier.get(key := name.encode().lower())
        if other == name:
            raise SourceRefused(f"two columns of this file are called {name}", "rename one of them")
        if other is not None:
            reason = f"the names of the columns {other} and {name} differ only in the case of letters"
            raise SourceRefused(reason, "rename one of them")
        earlier[key] = name


def _refuse_empty(files: Sequence[str]) -> None:
    """Refuse an empty file, for which DuckDB would invent a column. Only the owner's log names it: a file may be named
    after a person."""
    for file in files:
        with open_lines(file) as lines:
            if not any(line.strip() for line in lines):
                owner_log.warning("this file is empty: %s", file)
                reason = "this file is empty" if len(files) == 1 else "one of these files is empty"
                raise SourceRefused(f"{reason}: it has no header", "put the names of the columns in its first line")


@contextmanager
def open_lines(path: str) -> Iterator[Iterator[str]]:
    """Read the lines of a text file, which may be compressed."""
    try:
        match compression_of(path):
            case "zstd":
                yield _read_zstd_lines(path)
            case compression:
                opener: Any = gzip.open if compression == "gzip" else open
                with opener(path, "rt", newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
                    yield file
    except (OSError, EOFError, UnicodeError, csv.Error, zlib.error, duckdb.Error) as error:
        owner_log.warning("%s", error)
        compressed = f" and that it is compressed with {compression_of(path)}" * (compression_of(path) != "none")
        raise SourceRefused(
            "the header of this file cannot be read", f"check that its first line is text in UTF-8{compressed}"
        ) from None


def _read_zstd_lines(path: str) -> Iterator[str]:
    """Read the lines through DuckDB: Python reads this compression from version 3.14 on only."""
    file = quote_text(path)
    options = (
        "auto_detect = false, header = false, delim = '\x1f', quote = '', escape = '', columns = {'line': 'VARCHAR'}, "
        "compression = 'zstd', null_padding = true, strict_mode = false, max_line_size = 33554432"
    )
    found = duckdb.connect().execute(f"SELECT line FROM read_csv({file}, {options})")
    while rows := found.fetchmany(100):
        yield from (f"{line or ''}\n".removeprefix("\ufeff") for (line,) in rows)


def _read_header(path: str, delimiter: str, skip: int = 0) -> list[str]:
    """Read the first line after `skip` lines, and no other: the rest of the file may be broken."""
    with open_lines(path) as lines:
        for _ in range(skip):
            next(lines, "")
        line = next(csv.reader(lines, delimiter=delimiter), [])
        "".join(line).encode()
    return line


def create_parquet_view(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    files: Sequence[str],
    kinds: Mapping[str, Kind] | None,
    units: Sequence[str] = (),
) -> Loaded:
    """Create a view of the files."""
    folders = _partition_columns(files)
    listed = quote_texts(files)
    read = f"read_parquet({listed}, hive_partitioning = {bool(folders)}, hive_types_autocast = false)"
    declared = {folder: (kinds or {}).get(folder, Kind.TEXT) for folder in folders}
    casts = [
        f"{read_text_as(kind, quote_name(folder))} AS {quote_name(folder)}"
        for folder, kind in declared.items()
        if kind is not Kind.TEXT
    ]
    columns = f"* REPLACE ({', '.join(casts)})" if casts else "*"
    texts = [unit for unit in units if declared.get(unit, Kind.TEXT) is not Kind.TEXT]
    taken = [row[0] for row in connection.execute(f"DESCRIBE FROM {read}").fetchall()] if texts else []
    identities = identity_columns(texts, taken)
    columns += "".join(f", {quote_name(unit)} AS {quote_name(identity)}" for unit, identity in identities.items())
    connection.execute(f"CREATE VIEW {quote_name(name)} AS SELECT {columns} FROM {read}")
    return Loaded(identities, ())


def _partition_columns(files: Sequence[str]) -> tuple[str, ...]:
    """The columns that folders named NAME=VALUE stand for, which must be the same for every file."""
    found = {tuple(part.partition("=")[0] for part in PurePath(file).parent.parts if "=" in part) for file in files}
    if len(found) > 1:
        owner_log.warning("the folders of these files stand for different columns: %s", sorted(found))
        raise SourceRefused(
            "the folders of these files stand for different columns", "give each the same NAME=VALUE folders"
        )
    return found.pop() if found else ()


def load_arrow(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    files: Sequence[str],
    kinds: Mapping[str, Kind] | None,
    units: Sequence[str] = (),
) -> Loaded:
    """Read Arrow files, in the form for files or for streams, or of Feather's first version, into a table."""
    try:
        import pyarrow
        import pyarrow.feather
    except ImportError:
        raise SourceRefused("pyarrow is not installed", "pip install 'discreet[arrow]'") from None

    def read(file: str) -> Any:
        with pyarrow.OSFile(file) as source:
            start = source.read(6)
        with pyarrow.memory_map(file) if start else pyarrow.OSFile(file) as source:
            if start[:4] == b"FEA1":
                return pyarrow.feather.read_table(source)
            open_file = pyarrow.ipc.open_file if start == b"ARROW1" else pyarrow.ipc.open_stream
            return open_file(source).read_all()

    try:
        tables = [read(file) for file in files]
        if any(each.schema != tables[0].schema for each in tables):
            raise SourceRefused(
                "these files have different columns or types", "give each the same columns in the same order"
            )
        table = pyarrow.concat_tables(tables)
        table.validate(full=True)  # offsets beyond their buffers, and texts that are not UTF-8
    except (OSError, ValueError, pyarrow.ArrowException) as error:
        owner_log.warning("%s", error)
        raise SourceRefused("this is not an Arrow file that can be read", f"check that it is Arrow; {SAYS_MORE}") from None
    loaded = copy_frame(connection, name, table, kinds, units)
    return replace(loaded, problem=find_frame_unit_problem(table, units))


_SCHEMA = """SELECT file_name, name, num_children, type, type_length, converted_type, logical_type, scale, precision
  FROM parquet_schema({files})"""


def compute_parquet_fingerprint(
    connection: duckdb.DuckDBPyConnection, files: Sequence[str], columns: Collection[str]
) -> str | None:
    """Return a hash of what the files are known by: paths, sizes, times and the schema of these columns; None if the time of
    a file is unknown.

    Raises:
        SourceRefused: the files' schemas differ in these columns.
    """
    listed = quote_texts(files)
    schemas: dict[str, dict[str, Any]] = {}
    rows = iter(connection.execute(_SCHEMA.format(files=listed)).fetchall())
    for file, _, children, *_ in rows:
        fields = dict(_read_field(rows) for _ in range(children or 0))
        schemas[file] = {name: kind for name, kind in fields.items() if name in columns}
    first = next(iter(schemas.values()))
    for file, schema in schemas.items():
        if schema != first:
            differing = sorted(name for name in columns if schema.get(name) != first.get(name))
            owner_log.warning("the columns %s of %s are not of the types that %s has", differing, file, next(iter(schemas)))
            raise SourceRefused("a column has different types in these files", VALIDATE)
    try:
        stats = [
            (os.path.realpath(file), status.st_size, status.st_mtime_ns) for file in files for status in (os.stat(file),)
        ]
    except OSError:
        return None
    return sha256(repr((stats, sorted(first.items()))).encode()).hexdigest()


def _read_field(rows: Iterator[tuple[Any, ...]]) -> tuple[str, tuple[Any, ...]]:
    """The next field of a schema with all that is nested in it."""
    _, name, children, *kind = next(rows)
    return name, (*kind, *(_read_field(rows) for _ in range(children or 0)))


def read_physical_type(connection: duckdb.DuckDBPyConnection, files: Sequence[str], column: str) -> str | None:
    """The physical type of a column in the first file; None for a column that folders stand for."""
    query = "SELECT type FROM parquet_schema(?) WHERE name = ? AND type IS NOT NULL"
    found = connection.execute(query, [files[0], column]).fetchone()
    return None if found is None else found[0]
