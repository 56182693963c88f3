"""Parquet files, which stay where they are: how they are read, and by what their contents are known.

Columns that are folders (region=north/…) are texts, read by their declared kind like the cells of a CSV file: guessed types
would let one person's folder change the kind of a column. What differs between files is found from their metadata when the
source is opened: the engine would raise where it meets the other type, and so tell which row is in which file.
"""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import PurePath
from typing import Any

import duckdb
from sqlglot import exp

from discreet.engines.declared_kinds import identity_column, quote_name, read_text_as
from discreet.engines.owner import VALIDATE, owner_log
from discreet.errors import SourceRefused
from discreet.query.table import Kind


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
