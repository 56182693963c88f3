"""Where DuckDB finds a source, and how its connection is closed to everything else.

Frames and CSV files are read once, into a table of DuckDB's own; Parquet and DuckDB's files stay where they are.
"""

import json
from collections.abc import Sequence
from os import getpid
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any
from weakref import finalize

import duckdb
from sqlglot import exp

from discreet.engines.engine import quoted
from discreet.engines.owner import log
from discreet.errors import SourceRefused

READERS = {".csv": "read_csv", ".tsv": "read_csv", ".parquet": "read_parquet"}


def begun() -> duckdb.DuckDBPyConnection:
    """A connection of our own. Rows that memory does not hold go to a folder that nobody else can read."""
    try:
        folder = mkdtemp(prefix="discreet-")
    except OSError as mistake:
        log.warning("%s", mistake)
        raise SourceRefused("there is no folder for temporary files", "name one that can be written, with TMPDIR") from None
    connection = _open_without_display(config={"temp_directory": f"{folder}/rows"})  # the folder above it is private
    finalize(connection, _removed, folder, getpid())
    return connection


def _open_without_display(database: str = ":memory:", **options: Any) -> duckdb.DuckDBPyConnection:
    """Open a database and return a second connection to it, which keeps it open by itself.

    In a notebook DuckDB ties the connection that `duckdb.connect` returns to a progress bar of ipywidgets, and without that
    package it refuses to count progress at all. A cursor has no display, so progress is counted with and without ipywidgets.
    """
    return duckdb.connect(database, **options).cursor()


def _removed(folder: str, owner: int) -> None:
    """Not by a fork of the process that made it, which still needs it."""
    if getpid() == owner:
        rmtree(folder, ignore_errors=True)


def connected(path: str) -> duckdb.DuckDBPyConnection:
    """A database's file, to be read only. All connections of a process to one file share their settings."""
    try:
        return _open_without_display(path, read_only=True)
    except duckdb.Error as mistake:
        log.warning("%s", mistake)
        raise SourceRefused(
            "this database cannot be opened", "check the path, and that nobody is writing to it; the owner's log says more"
        ) from None


def copied(source: Any, name: str) -> duckdb.DuckDBPyConnection:
    """A frame, read once into a table: a value that the engine cannot hold is the steward's to mend when the source is
    opened, and must not make a question fail later."""
    connection = begun()
    try:
        connection.register("given", source)
        connection.execute(f"CREATE TABLE {quoted(name).sql(dialect='duckdb')} AS SELECT * FROM given")
        connection.unregister("given")
    except (duckdb.Error, TypeError, ValueError) as mistake:
        log.warning("%s", mistake)
        raise SourceRefused(
            "this is not a table that can be read", "give a path, a frame, an Arrow table or a connection"
        ) from None
    return connection


def placed(connection: duckdb.DuckDBPyConnection, name: str, suffix: str, files: list[str]) -> None:
    """Parquet stays in its files. CSV is read now: a line that does not parse is the steward's to mend, and must not make a
    question fail later."""
    listed = exp.Array(expressions=[exp.Literal.string(file) for file in files])
    reader = exp.Anonymous(this=READERS[suffix], expressions=[listed]).sql(dialect="duckdb")
    kind = "VIEW" if suffix == ".parquet" else "TABLE"
    connection.execute(f"CREATE {kind} {quoted(name).sql(dialect='duckdb')} AS SELECT * FROM {reader}")


def locked(connection: duckdb.DuckDBPyConnection, files: Sequence[str] = ()) -> duckdb.DuckDBPyConnection:
    """From here on the connection reaches these files and nothing else, and no setting can be changed back."""
    if _setting(connection, "lock_configuration"):  # by an earlier session on the same file, or by its owner
        if _setting(connection, "enable_external_access"):
            raise SourceRefused("this database is open elsewhere, with settings that are locked", "close it there")
        return connection
    allowed = exp.Array(expressions=[exp.Literal.string(file) for file in files]).sql(dialect="duckdb")
    connection.execute(f"SET allowed_paths = {allowed}")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET enable_progress_bar = true")  # kept, so that it can be asked for; never printed
    connection.execute("SET enable_progress_bar_print = false")
    connection.execute("SET lock_configuration = true")
    return connection


def _setting(connection: duckdb.DuckDBPyConnection, name: str) -> Any:
    [[value]] = connection.execute("SELECT current_setting(?)", [name]).fetchall()
    return value


def refuse_collation(connection: duckdb.DuckDBPyConnection) -> None:
    if _setting(connection, "default_collation"):
        raise SourceRefused("this connection has a default collation", "reset it: SET default_collation = ''")


def absolute(path: str) -> str:
    """Where a source is, however it was named."""
    return str(Path(path).resolve())


PLACES = """
    WITH named AS (
        SELECT database_name, schema_name, table_name AS name, temporary FROM duckdb_tables()
        UNION ALL SELECT database_name, schema_name, view_name, temporary FROM duckdb_views() WHERE NOT internal
    )
    SELECT path, schema_name, (database_name, schema_name) = (current_database(), current_schema()), temporary
    FROM named JOIN duckdb_databases() USING (database_name) WHERE lower(name) = lower(?)
"""


def home(connection: duckdb.DuckDBPyConnection, table: str) -> str | None:
    """The file and the schema of a table; None for one that is in memory, or if more than one could be meant."""
    found = connection.execute(PLACES, [table]).fetchall()
    meant = [row for row in found if row[2]] or found
    if len(meant) != 1 or any(temporary for *_, temporary in found):
        return None
    [(path, schema, *_)] = meant
    return None if path is None else f"{absolute(path)} {json.dumps(schema)}"
