"""CSV files: every cell is read as text, and as the kind of its column afterwards.

With a policy, no type, delimiter or quote is guessed from values: the delimiter is the one that splits the header, which is
public, into the declared names. Without one, kinds and delimiter are inferred from the first rows. Either way a cell that is
not what its column holds is NULL, so what a cell means depends on that cell alone; an empty cell is NULL too, with or
without quotes. The identity of a unit is its cell's own text (see `declared_kinds`).
"""

import csv
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import PurePath
from typing import Any, TextIO

import duckdb
from sqlglot import exp

from discreet.engines.base import VALIDATE, identity_column, owner_log
from discreet.engines.duckdb.types import ZONED, quote_name, read_text_as
from discreet.errors import SourceRefused
from discreet.query.schema import Kind

DELIMITERS = (",", ";", "\t", "|")


@dataclass(frozen=True, slots=True)
class CsvLayout:
    """How the cells of a file are told apart, and what their columns are called."""

    names: Sequence[str]
    delimiter: str
    quote: str = '"'
    escape: str = '"'
    header: bool = True
    skip: int = 0

    @property
    def options(self) -> str:
        """As arguments of read_csv."""
        columns = ", ".join(f"'c{i}': 'VARCHAR'" for i in range(len(self.names)))
        marks = {"delim": self.delimiter, "quote": self.quote, "escape": self.escape}
        written = ", ".join(f"{name} = {exp.Literal.string(mark).sql(dialect='duckdb')}" for name, mark in marks.items())
        return f"auto_detect = false, header = {self.header}, skip = {self.skip}, {written}, columns = {{{columns}}}"


def load_csv(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    files: Sequence[str],
    kinds: Mapping[str, Kind] | None,
    unit: str | None = None,
) -> str | None:
    """Read the declared columns into a table, or all of them, and return the column of the units' identities, if there is
    one. The cast is made from a stored text: DuckDB hands a cast down to its reader of CSV, where a cell that does not fit
    raises, TRY or not."""
    _refuse_empty(files)
    if kinds is None:
        layout, kinds = _infer_layout(connection, files)
    else:
        layout = _layout_for_kinds(files, kinds)
    columns = [_column_sql(f"c{i}", column, kinds[column]) for i, column in enumerate(layout.names) if column in kinds]
    if not columns:
        raise SourceRefused("no declared column is in the header of this file", "check the policy and the first line")
    identities = None
    if unit is not None and unit in layout.names and kinds.get(unit) is not Kind.TEXT:
        identities = identity_column(unit, layout.names)
        columns.append(f"c{layout.names.index(unit)} AS {quote_name(identities)}")
    raw, listed = quote_name(f"{name} as text"), exp.Array(expressions=[exp.Literal.string(file) for file in files])
    read = f"read_csv({listed.sql(dialect='duckdb')}, {layout.options})"
    connection.execute(f"CREATE TEMP TABLE {raw} AS SELECT * FROM {read}")
    connection.execute(f"CREATE TABLE {quote_name(name)} AS SELECT {', '.join(columns)} FROM {raw}")
    connection.execute(f"DROP TABLE {raw}")
    return identities


def _column_sql(cell: str, column: str, kind: Kind) -> str:
    return f"{read_text_as(kind, cell)} AS {quote_name(column)}"


INFERRED = {
    "BIGINT": Kind.INTEGER, "DOUBLE": Kind.REAL, "BOOLEAN": Kind.BOOLEAN, "DATE": Kind.DATE, "TIMESTAMP": Kind.TIMESTAMP,
    ZONED: Kind.TIMESTAMP,
}  # fmt: skip
_SNIFF = "SELECT Delimiter, Quote, Escape, HasHeader, SkipRows, Columns FROM sniff_csv(?)"


def _infer_layout(connection: duckdb.DuckDBPyConnection, files: Sequence[str]) -> tuple[CsvLayout, dict[str, Kind]]:
    """What the first rows of the first file look like."""
    found = connection.execute(_SNIFF, [files[0]]).fetchone()
    assert found is not None
    *marks, header, skip, columns = found
    delimiter, quote, escape = (mark.replace("\\t", "\t").replace("(empty)", "") for mark in marks)
    layout = CsvLayout([column["name"] for column in columns], delimiter, quote or '"', escape or '"', header, skip)
    if header:
        headers = {tuple(_read_header(file, delimiter, skip)) for file in files}
        if len(headers) > 1:
            raise SourceRefused("these files have different headers", "give each the same columns in the same order")
        names = headers.pop()
        _refuse_twice(names, [name for name in names if name])
    return layout, {column["name"]: INFERRED.get(column["type"], Kind.TEXT) for column in columns}


def _layout_for_kinds(files: Sequence[str], kinds: Mapping[str, Kind]) -> CsvLayout:
    found = {delimiter: [_read_header(file, delimiter) for file in files] for delimiter in DELIMITERS}
    if not all(found[","]):
        raise SourceRefused("this file has no header", "put the names of the columns in its first line")
    delimiter = max(DELIMITERS, key=lambda each: len(set(found[each][0]) & set(kinds)))
    header = found[delimiter][0]
    if any(other != header for other in found[delimiter]):
        raise SourceRefused("these files have different headers", "give each the same columns in the same order")
    _refuse_twice(header, kinds)
    return CsvLayout(header, delimiter)


def _refuse_twice(header: Sequence[str], names: Iterable[str]) -> None:
    """DuckDB would give the second column of a name another one."""
    if twice := [name for name in names if header.count(name) > 1]:
        raise SourceRefused(f"two columns of this file are called {twice[0]}", "rename one of them")


def _refuse_empty(files: Sequence[str]) -> None:
    """DuckDB would make up a column. The owner's log says which file it is: it may be named after a person."""
    for file in files:
        with _opened(file) as lines:
            if not any(line.strip() for line in lines):
                owner_log.warning("this file is empty: %s", file)
                reason = "this file is empty" if len(files) == 1 else "one of these files is empty"
                raise SourceRefused(f"{reason}: it has no header", "put the names of the columns in its first line")


@contextmanager
def _opened(path: str) -> Iterator[TextIO]:
    try:
        with open(path, newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
            yield file
    except (OSError, UnicodeError, csv.Error):
        raise SourceRefused("the header of this file cannot be read", "check that its first line is text in UTF-8") from None


def _read_header(path: str, delimiter: str, skip: int = 0) -> list[str]:
    """Only this line: what is wrong further down is not the header's fault."""
    with _opened(path) as file:
        for _ in range(skip):
            next(file, "")
        line = next(csv.reader(file, delimiter=delimiter), [])
        "".join(line).encode()
    return line


# Parquet files, which stay where they are: how they are read, and by what their contents are known.
#
# Columns that are folders (region=north/…) are texts, read by their declared kind like the cells of a CSV file: guessed
# types
# would let one person's folder change the kind of a column. What differs between files is found from their metadata when the
# source is opened: the engine would raise where it meets the other type, and so tell which row is in which file.


def create_parquet_view(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    files: Sequence[str],
    kinds: Mapping[str, Kind] | None,
    unit: str | None = None,
) -> str | None:
    """Make a view of the files, and return the column of the units' identities, if there is one."""
    folders = _partition_columns(files)
    listed = exp.Array(expressions=[exp.Literal.string(file) for file in files]).sql(dialect="duckdb")
    read = f"read_parquet({listed}, hive_partitioning = {bool(folders)}, hive_types_autocast = false)"
    declared = {folder: (kinds or {}).get(folder, Kind.TEXT) for folder in folders}
    casts = [
        f"{read_text_as(kind, quote_name(folder))} AS {quote_name(folder)}"
        for folder, kind in declared.items()
        if kind is not Kind.TEXT
    ]
    columns, identities = f"* REPLACE ({', '.join(casts)})" if casts else "*", None
    if unit is not None and declared.get(unit, Kind.TEXT) is not Kind.TEXT:
        identities = identity_column(unit, [row[0] for row in connection.execute(f"DESCRIBE FROM {read}").fetchall()])
        columns += f", {quote_name(unit)} AS {quote_name(identities)}"
    connection.execute(f"CREATE VIEW {quote_name(name)} AS SELECT {columns} FROM {read}")
    return identities


def _partition_columns(files: Sequence[str]) -> tuple[str, ...]:
    """The columns that the files' folders stand for, the same for every file."""
    found = {tuple(part.partition("=")[0] for part in PurePath(file).parent.parts if "=" in part) for file in files}
    if len(found) > 1:
        owner_log.warning("the folders of these files stand for different columns: %s", sorted(found))
        raise SourceRefused("these files are in folders of different columns", "give each file the same NAME=VALUE folders")
    return found.pop() if found else ()


_SCHEMA = """SELECT file_name, name, num_children, type, type_length, converted_type, logical_type, scale, precision
  FROM parquet_schema({files})"""


def compute_parquet_fingerprint(
    connection: duckdb.DuckDBPyConnection, files: Sequence[str], columns: Collection[str]
) -> str | None:
    """Refuse files whose schemas differ in these columns; else return what they are known by: paths, sizes, times and the
    schema. None if a file's time cannot be told."""
    listed = exp.Array(expressions=[exp.Literal.string(file) for file in files]).sql(dialect="duckdb")
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
            raise SourceRefused("the columns of these files are not of the same types", VALIDATE)
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
    """The physical type of a column in the first file; None for a folder's column."""
    query = "SELECT type FROM parquet_schema(?) WHERE name = ? AND type IS NOT NULL"
    found = connection.execute(query, [files[0], column]).fetchone()
    return None if found is None else found[0]
