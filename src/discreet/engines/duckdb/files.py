"""CSV and Parquet files as tables of DuckDB.

**CSV.** Every cell is read as text, and then as the kind of its column. With a policy, no type, delimiter or quote is
inferred from values: the delimiter is the one that splits the header, which is public, into the declared names. Without a
policy, kinds and delimiter are inferred from the first rows. Either way a cell that does not fit its column is NULL, so what
a cell means depends on that cell alone; an empty cell is NULL too, with or without quotes. A unit is identified by the text
of its cell (see `types`).

**Parquet** files stay where they are. Columns that are folders (region=north/…) are texts, read by their declared kind like
the cells of a CSV file: with inferred types, one person's folder would change the kind of a column. Types that differ
between files are found from the metadata when the source is opened: a query would fail where it meets the other type, and so
reveal which row is in which file.
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
        quoted = ", ".join(f"{name} = {exp.Literal.string(mark).sql(dialect='duckdb')}" for name, mark in marks.items())
        return f"auto_detect = false, header = {self.header}, skip = {self.skip}, {quoted}, columns = {{{columns}}}"


def load_csv(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    files: Sequence[str],
    kinds: Mapping[str, Kind] | None,
    unit: str | None = None,
) -> str | None:
    """Read the declared columns, or all of them, into a table.

    Texts are stored first and then cast: DuckDB would move the cast into its CSV reader, where a cell that does not fit
    raises even in a TRY_CAST.

    Returns:
        The column that holds the units' identities; None if the units' own column does.
    """
    _refuse_empty(files)
    if kinds is None:
        layout, kinds = _infer_layout(connection, files)
    else:
        layout = _layout_for_kinds(files, kinds)
    columns = [_column_sql(f"c{i}", column, kinds[column]) for i, column in enumerate(layout.names) if column in kinds]
    if not columns:
        raise SourceRefused("the header of this file has no declared column", "check the policy and the first line")
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
    """Infer layout and kinds from the first rows of the first file."""
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
        _refuse_duplicates(names, [name for name in names if name])
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
    _refuse_duplicates(header, kinds)
    return CsvLayout(header, delimiter)


def _refuse_duplicates(header: Sequence[str], names: Iterable[str]) -> None:
    """Refuse two columns of one name: DuckDB would give the second another one."""
    if duplicates := [name for name in names if header.count(name) > 1]:
        raise SourceRefused(f"two columns of this file are called {duplicates[0]}", "rename one of them")


def _refuse_empty(files: Sequence[str]) -> None:
    """Refuse an empty file, for which DuckDB would invent a column. Only the owner's log names it: a file may be named
    after a person."""
    for file in files:
        with _open_text(file) as lines:
            if not any(line.strip() for line in lines):
                owner_log.warning("this file is empty: %s", file)
                reason = "this file is empty" if len(files) == 1 else "one of these files is empty"
                raise SourceRefused(f"{reason}: it has no header", "put the names of the columns in its first line")


@contextmanager
def _open_text(path: str) -> Iterator[TextIO]:
    try:
        with open(path, newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
            yield file
    except (OSError, UnicodeError, csv.Error):
        raise SourceRefused("the header of this file cannot be read", "check that its first line is text in UTF-8") from None


def _read_header(path: str, delimiter: str, skip: int = 0) -> list[str]:
    """Read the first line after `skip` lines, and no other: the rest of the file may be broken."""
    with _open_text(path) as file:
        for _ in range(skip):
            next(file, "")
        line = next(csv.reader(file, delimiter=delimiter), [])
        "".join(line).encode()
    return line


def create_parquet_view(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    files: Sequence[str],
    kinds: Mapping[str, Kind] | None,
    unit: str | None = None,
) -> str | None:
    """Create a view of the files.

    Returns:
        The column that holds the units' identities; None if the units' own column does.
    """
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
    """The columns that folders named NAME=VALUE stand for, which must be the same for every file."""
    found = {tuple(part.partition("=")[0] for part in PurePath(file).parent.parts if "=" in part) for file in files}
    if len(found) > 1:
        owner_log.warning("the folders of these files stand for different columns: %s", sorted(found))
        raise SourceRefused(
            "the folders of these files stand for different columns", "give each the same NAME=VALUE folders"
        )
    return found.pop() if found else ()


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
