"""How DuckDB finds a source, and how its connection is locked to everything else.

Frames and CSV files are read once, into a table of DuckDB's own; Parquet and DuckDB's files stay where they are.
"""

import errno
import json
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ctypes import py_object, pythonapi
from dataclasses import dataclass
from glob import escape
from os import getpid
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from threading import Lock
from typing import Any
from weakref import finalize

import duckdb

from discreet.engines.base import SAYS_MORE, owner_log
from discreet.engines.duckdb.types import quote_name, quote_text, quote_texts
from discreet.errors import SourceRefused, raise_interrupts
from discreet.paths import format_path, identify, may, reason_of

WILDCARDS = "*?["


def new_connection() -> duckdb.DuckDBPyConnection:
    """Open a database in memory. Rows that memory does not hold go to a folder that only this user can read."""
    folder = _make_private_folder()
    connection = _open_without_display(config={"temp_directory": f"{folder}/rows"})  # the folder above it is private
    connection.execute("SET TimeZone = 'UTC'")  # in which texts of moments without an offset are read
    _IN_MEMORY[folder] = connection.cursor()
    finalize(connection, _leave_memory, folder, getpid())
    return connection


_IN_MEMORY: dict[str, duckdb.DuckDBPyConnection] = {}
"""By the folder of each database: another connection, which keeps it open as long as the one that was returned is there, and
in a forked child forever."""


def _leave_memory(folder: str, owner: int) -> None:
    if getpid() == owner:
        _IN_MEMORY.pop(folder, None)
    _remove_folder(folder, owner)


def _make_private_folder() -> str:
    try:
        return mkdtemp(prefix="discreet-")
    except OSError as error:
        owner_log.warning("%s", error)
        raise SourceRefused("there is no folder for temporary files", "name a writable one in TMPDIR") from None


def _open_without_display(**options: Any) -> duckdb.DuckDBPyConnection:
    """Open a database in memory and return a second connection to it, which keeps it open by itself.

    In a notebook DuckDB ties the connection that `duckdb.connect` returns to a progress bar of ipywidgets, and without that
    package it refuses to count progress at all. A cursor has no display, so progress is counted with and without ipywidgets.
    """
    return duckdb.connect(**options).cursor()


def _remove_folder(folder: str, owner: int) -> None:
    """Remove a folder, unless this process is a fork of the one that made it and still needs it."""
    if getpid() == owner:
        rmtree(folder, ignore_errors=True)


@dataclass(eq=False, slots=True)
class _OpenFile:
    """A file that is open in a database in memory, for all of its users."""

    hidden: duckdb.DuckDBPyConnection  # no user has it: DuckDB closes the cursors of a connection together with it
    first: duckdb.DuckDBPyConnection | None  # the only cursor that counts progress, until a user has it
    users: set[object]


_OPENED: dict[tuple[str, int, int], _OpenFile] = {}
"""The open files: by their path, and by what the system calls the file that was there."""
_OPENING = Lock()


def _forget_all() -> None:
    """In a forked child no database of its parent works, and no thread releases what it held. Those databases stay open
    even when the child ends: to close one, DuckDB would wait for threads that the child does not have."""
    global _OPENED, _OPENING
    for opened in (_OPENED, _IN_MEMORY):
        pythonapi.Py_IncRef(py_object(opened))
    _OPENED, _OPENING = {}, Lock()


if hasattr(os, "register_at_fork"):  # not where there is no fork
    os.register_at_fork(after_in_child=_forget_all)


def open_database(path: str) -> duckdb.DuckDBPyConnection:
    """Open the file of a database for reading, and lock its settings.

    It is attached to a database in memory. DuckDB keeps one database per path and process: while an earlier session had it
    open, a file that took the place of the one before, as `prepare` puts it there, would never be read. Sessions on the same
    file share a database, its settings and its handle: when a process closes any handle of a file, the system takes all of
    its locks off. A session may close its connection: the file is open until the last of them is closed by `visit_database`
    or deleted. The folder for rows that memory does not hold is removed then: DuckDB's own choice would be a folder beside
    the file, with rows that other users can read.
    """
    connection, _ = _open_shared(path)
    return connection


@contextmanager
def visit_database(path: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open the file of a database while a block runs, even if an exception still refers to the connection afterwards."""
    connection, leave = _open_shared(path)
    try:
        yield connection
    finally:
        connection.close()
        leave()


@raise_interrupts()
def _open_shared(path: str) -> tuple[duckdb.DuckDBPyConnection, Callable[[], object]]:
    """Return a connection to the file, and a function that gives it up, as deleting the connection does."""
    try:
        with _OPENING:
            while True:
                file = _identify_file(path)
                opened = _OPENED.get(file) or _attach_database(path)
                if file == _identify_file(path):  # else it was replaced meanwhile
                    break
            _OPENED[file] = opened
            connection, opened.first = opened.first or _use_attached(opened.hidden.cursor()), None
            user = object()
            leave = finalize(connection, _leave, opened, user)
            leave.atexit = False  # other functions that run at exit may still ask
            opened.users.add(user)
        return connection, leave
    except duckdb.Error as error:
        owner_log.warning("%s", error)
        raise SourceRefused(
            f"the database {format_path(path)} cannot be opened",
            f"check the path, and that no other program is writing to it; {SAYS_MORE}",
        ) from None
    finally:
        _close_unused()


def _leave(opened: _OpenFile, user: object) -> None:
    opened.users.discard(user)
    _close_unused()


def _close_unused() -> None:
    """Close the files without users. A connection may be deleted in any thread and at any moment, even in one that holds
    the lock. So this does not wait for the lock, and each thread that releases it calls this afterwards."""
    while not all(opened.users for opened in [*_OPENED.values()]) and _OPENING.acquire(blocking=False):
        try:
            for file in [file for file, opened in _OPENED.items() if not opened.users]:
                _OPENED.pop(file).hidden.close()
        finally:
            _OPENING.release()


def _identify_file(path: str) -> tuple[str, int, int]:
    return (absolute_path(path), *identify(path))


def _attach_database(path: str) -> _OpenFile:
    """Attach the file. The settings are locked before anything shares them: they belong to the database, and two threads
    that set them would get in each other's way."""
    folder = _make_private_folder()
    hidden = _open_without_display(config={"temp_directory": f"{folder}/rows"})
    finalize(hidden, _remove_folder, folder, getpid())
    name = " AS memory_db" if Path(path).name.lower().startswith("memory.") else ""  # DuckDB's own names are for itself
    hidden.execute(f"ATTACH {quote_text(path)}{name} (TYPE duckdb, READ_ONLY)")
    first = _use_attached(hidden.cursor())
    _count_progress(first)
    lock_down(hidden)
    return _OpenFile(hidden, first, set())


def _use_attached(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Find tables in the attached file first."""
    [[name]] = connection.execute("SELECT database_name FROM duckdb_databases() WHERE path IS NOT NULL").fetchall()
    connection.execute(f"USE {quote_name(name)}")
    return connection


def lock_down(connection: duckdb.DuckDBPyConnection, files: Sequence[str] = ()) -> duckdb.DuckDBPyConnection:
    """Let the database of a connection reach these files and nothing else, and lock its settings."""
    allowed = quote_texts(files)
    connection.execute(f"SET allowed_paths = {allowed}")
    connection.execute("SET enable_external_access = false")
    _count_progress(connection)
    connection.execute("SET lock_configuration = true")
    return connection


def _count_progress(connection: duckdb.DuckDBPyConnection) -> None:
    """Count the progress of this connection's statements, and do not print it. Other connections to its database do not
    count theirs, and cannot once the settings are locked."""
    connection.execute("SET enable_progress_bar = true")
    connection.execute("SET enable_progress_bar_print = false")


def _read_setting(connection: duckdb.DuckDBPyConnection, name: str) -> Any:
    [[value]] = connection.execute("SELECT current_setting(?)", [name]).fetchall()
    return value


def check_collation(connection: duckdb.DuckDBPyConnection) -> None:
    """Refuse a connection in which different texts may be equal."""
    if _read_setting(connection, "default_collation"):
        raise SourceRefused("this connection has a default collation", "reset it: SET default_collation = ''")


def refuse_without_access(path: str) -> None:
    """Refuse a file or a folder that this process may not read. A missing one passes: its error comes later."""
    parts = Path(path).parts
    wild = [i for i, part in enumerate(parts) if any(mark in part for mark in WILDCARDS)]
    _refuse_closed(str(Path(*parts[: wild[0]])) if wild else path, path)


def refuse_closed_files(files: Sequence[str], path: str) -> None:
    """Refuse a source if one of its files cannot be read. The owner's log says which: it may be named after a person."""
    for file in files:
        _refuse_closed(file, path)


def _refuse_closed(part: str, path: str) -> None:
    """Refuse the source at `path` if this part of it cannot be read."""
    local = part.removeprefix("file://")
    if "://" in local:
        return
    try:
        os.stat(local)
        if may(local, os.R_OK):
            return
        error: Exception = PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except (FileNotFoundError, NotADirectoryError):
        return
    except (OSError, ValueError) as failure:  # a ValueError: a NUL in the path
        error = failure
    owner_log.warning("%s: %s", part, error)
    reason = f"{format_path(path)} {_describe_closed(local)} ({reason_of(error)})"
    raise SourceRefused(reason, "allow reading it, or check the path")


def _describe_closed(path: str) -> str:
    try:
        return "is a folder that cannot be listed" if stat.S_ISDIR(os.stat(path).st_mode) else "cannot be read"
    except PermissionError:
        return "is in a folder that cannot be listed"
    except (OSError, ValueError):
        return "cannot be read"


def files_of_folder(path: str) -> str:
    """The pattern of the Parquet files in a folder and its subfolders. Each of these must be readable: the engine would
    silently skip the files of one that is not."""
    for _ in os.walk(path, onerror=lambda error: _refuse_closed(str(error.filename), path)):
        pass
    return f"{escape(path)}/**/*.parquet"


def name_of_folder(path: str) -> str:
    """What queries call the table in a folder: the folder's name, without .parquet.

    >>> name_of_folder("/data/people.parquet"), name_of_folder("/data/people-2026.v1/")
    ('people', 'people-2026.v1')
    """
    folder = Path(path).resolve()
    return folder.stem if folder.suffix.lower() == ".parquet" else folder.name


def real_path(file: str) -> str:
    """The path of a file that a pattern matched, without links and without the scheme of a URL."""
    return str(Path(file.removeprefix("file://")).resolve())


def absolute_path(path: str) -> str:
    """Where a source is, however it was named."""
    return str(Path(path).resolve())


_FIND_TABLE = """
    WITH named AS (
        SELECT database_name, schema_name, table_name AS name, temporary, false AS is_view FROM duckdb_tables()
        UNION ALL SELECT database_name, schema_name, view_name, temporary, true FROM duckdb_views() WHERE NOT internal
    )
    SELECT database_name, schema_name, name, temporary,
        (database_name, schema_name) = (current_database(), current_schema()),
        is_view OR type <> 'duckdb',
        path
    FROM named JOIN duckdb_databases() USING (database_name) WHERE lower(name) = lower(?)
"""


@dataclass(frozen=True, slots=True)
class TableLocation:
    """Where a table is: catalog, schema and name, so that no table made later under the same name is read instead."""

    qualified_name: tuple[str, str, str]
    computed: bool  # whether expressions of the owner's are evaluated when it is read: a view, another database's table
    durable_address: str | None  # its file and schema; None for a table that ends with the process


def find_table(connection: duckdb.DuckDBPyConnection, table: str) -> TableLocation:
    """Find a table as DuckDB itself would: temporary ones first, then the current schema, then the only one there is."""
    found = connection.execute(_FIND_TABLE, [table]).fetchall()
    candidates = [row for row in found if row[3]] or [row for row in found if row[4]] or found
    if len(candidates) != 1:
        reason = f"more than one schema has a table {table!r}" if candidates else f"there is no table {table!r}"
        raise SourceRefused(reason, "choose one with USE" if candidates else "check its name")
    [(catalog, schema, name, temporary, _, computed, path)] = candidates
    address = None if path is None or temporary else f"{absolute_path(path)} {json.dumps(schema)}"
    return TableLocation((catalog, schema, name), computed, address)


@raise_interrupts()
def list_tables(path: Any) -> list[str]:
    """List the tables and views of a database: for its owner, because names may say something about people."""
    with visit_database(str(path)) as connection:
        found = connection.execute(
            "SELECT table_name FROM duckdb_tables() UNION SELECT view_name FROM duckdb_views() WHERE NOT internal ORDER BY 1"
        ).fetchall()
    return [name for (name,) in found]


def own_location(table: str) -> TableLocation:
    """The location of a table that `new_connection` holds."""
    return TableLocation(("memory", "main", table), computed=False, durable_address=None)
