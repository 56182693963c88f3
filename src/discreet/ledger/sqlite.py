"""The store in one SQLite file: for one machine, any number of processes and threads.

Write-ahead log, `synchronous=FULL` and immediate transactions: a commit is on the disk when it returns, and writers queue.
Every failure (a full disk, a failing one, a file that was replaced) is an error before anything is shown.
"""

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

from discreet.errors import PARAMETER_PAGES, BadParameter, DiscreetError, LedgerCorrupted, LedgerUnavailable
from discreet.ledger.sql_store import (
    LATEST_VERSION,
    SqlTransaction,
    check_version,
    locked_ledger_error,
    missing_ledger_error,
    report_waiting,
    upgrade,
)
from discreet.paths import exists, resolve

WAIT_SECONDS = 1.0
MAX_TRIES = 120
"""A writer waits for others this many times `WAIT_SECONDS`, and says so after the first of them. Tries are counted, not
timed: no clock is read."""

_REASONS = {
    sqlite3.SQLITE_FULL: ("the disk is full", "make room"),
    sqlite3.SQLITE_IOERR: ("the disk failed, or a limit on the size of files was reached", "check the disk"),
    sqlite3.SQLITE_READONLY: ("it may not be written", "allow writing to the file and its folder"),
    sqlite3.SQLITE_CANTOPEN: ("it cannot be opened", "name a file in a folder that may be written"),
    sqlite3.SQLITE_PERM: ("it may not be opened", "allow reading and writing it"),
    sqlite3.SQLITE_AUTH: ("it may not be opened", "allow reading and writing it"),
}
_ALLOW = "allow it, or name another file"
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}
_CORRUPTED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_CONSTRAINT}


_SIGNATURE = b"SQLite format 3\0"

_STORES: "weakref.WeakSet[SqliteStore]" = weakref.WeakSet()


class SqliteStore:
    """The file, through one connection per process."""

    _connection: sqlite3.Connection | None = None

    def __init__(self, path: str | os.PathLike[str], *, create: bool = False) -> None:
        if str(path) in ("", ":memory:"):
            raise BadParameter(
                "ledger", repr(str(path)), "a budget in memory ends with the process", "name a file, or leave ledger= out"
            )
        self.path = resolve(path, lambda reason: LedgerUnavailable(str(path), reason, "name another file"))
        self.location = str(self.path)
        self._lock = threading.RLock()
        self._file = (0, 0)
        with self._lock:
            self._connect(create)
        _STORES.add(self)

    def write_transaction(self) -> AbstractContextManager[SqlTransaction]:
        """As in `Store`."""
        return self._transaction("BEGIN IMMEDIATE")

    def read_transaction(self) -> AbstractContextManager[SqlTransaction]:
        """As in `Store`."""
        return self._transaction("BEGIN")

    def close(self) -> None:
        """As in `Store`."""
        with self._lock:
            self._disconnect()

    def check_integrity(self) -> str | None:
        """As in `Store`: SQLite checks its own pages."""
        with self.read_transaction() as transaction:
            finding = str(transaction.run("PRAGMA integrity_check(1)", ()).fetchone()[0])
        return None if finding == "ok" else finding

    def __del__(self) -> None:
        self._disconnect()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[SqlTransaction]:
        with self._lock, self._translate_errors():
            connection = self._current_connection()
            try:
                self._execute_with_retry(begin)
                row = connection.execute("SELECT version FROM discreet_schema").fetchone()
                check_version(row, self.location)
                yield SqlTransaction(connection.execute, self.location)
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise

    def _current_connection(self) -> sqlite3.Connection:
        """Return the connection, opened again after a fork or a failure. A file that is no longer at its path is refused."""
        if self._connection is None:
            self._connect(create=False)
        if self._file != self._file_identity():
            self._disconnect()
            raise LedgerUnavailable(
                self.location, "the file was moved, removed or replaced", "put it back, then open it again"
            )
        assert self._connection is not None
        return self._connection

    def _connect(self, create: bool) -> None:
        if not create and not exists(self.path, lambda reason: LedgerUnavailable(self.location, reason, _ALLOW)):
            raise missing_ledger_error(self.location, self.location)
        if create and not exists(self.path.parent, lambda reason: LedgerUnavailable(self.location, reason, _ALLOW)):
            hint = "create the folder first, or name a file in another one"
            raise LedgerUnavailable(self.location, "its folder does not exist", hint)
        with self._translate_errors():
            if create:  # for its owner alone, who may give others rights
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            uri = f"{self.path.as_uri()}?mode=rw"
            self._connection = sqlite3.connect(
                uri, timeout=WAIT_SECONDS, isolation_level=None, check_same_thread=False, uri=True
            )
            self._file = self._file_identity()
            if self._execute_with_retry("PRAGMA journal_mode=WAL").fetchone()[0] != "wal":
                raise LedgerUnavailable(
                    self.location, "SQLite has no write-ahead log here", "put it on a local disk, or use PostgreSQL"
                )
            self._connection.execute("PRAGMA synchronous=FULL")
            if self._version() != LATEST_VERSION:
                self._upgrade(create)

    def _version(self) -> int:
        assert self._connection is not None
        table = self._execute_with_retry("SELECT 1 FROM sqlite_master WHERE name = 'discreet_schema'").fetchone()
        return (
            check_version(self._connection.execute("SELECT version FROM discreet_schema").fetchone(), self.location)
            if table
            else 0
        )

    def _upgrade(self, create: bool) -> None:
        connection = self._connection
        assert connection is not None
        self._execute_with_retry("BEGIN IMMEDIATE")
        try:
            upgrade(connection.execute, self.location, key="INTEGER PRIMARY KEY", bytes="BLOB", create=create)
            connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise
        sync_folder(self.path.parent)

    def _execute_with_retry(self, statement: str) -> Any:
        assert self._connection is not None
        for attempt in range(MAX_TRIES):
            try:
                return self._connection.execute(statement)
            except sqlite3.OperationalError as error:
                if _error_code(error) not in _BUSY or attempt == MAX_TRIES - 1:
                    raise
                if attempt == 0:
                    report_waiting(self.location)
                time.sleep(min(0.01 * attempt, 0.2))
        raise AssertionError("unreachable")

    def _has_signature(self) -> bool:
        """Whether the file starts as those of SQLite do."""
        try:
            with open(self.path, "rb") as file:
                return file.read(len(_SIGNATURE)) == _SIGNATURE
        except OSError:
            return True

    def _file_identity(self) -> tuple[int, int]:
        try:
            found = os.stat(self.path)
        except OSError:
            return 0, 0
        return found.st_dev, found.st_ino

    def _disconnect(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
        self._connection = None

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Raise the errors of SQLite and the system as errors of discreet. After one of them the connection is closed."""
        try:
            yield
        except sqlite3.Error as error:
            self._disconnect()
            raise self._translate_error(error) from error
        except UnicodeDecodeError as error:
            self._disconnect()
            raise LedgerCorrupted(self.location, "a column that holds text holds something else") from error
        except OSError as error:
            self._disconnect()
            hint = _ALLOW if isinstance(error, PermissionError) else "check the disk"
            raise LedgerUnavailable(self.location, f"the system refused it ({error.strerror})", hint) from error

    def _translate_error(self, error: sqlite3.Error) -> DiscreetError:
        code = _error_code(error)
        if code == sqlite3.SQLITE_NOTADB and not self._has_signature():
            hint = "name another file; if it was a ledger, restore it"
            refused = LedgerUnavailable(self.location, "this file is not a ledger", hint)
            refused.see = PARAMETER_PAGES["ledger"]
            return refused
        if code in _CORRUPTED:
            return LedgerCorrupted(self.location, f"SQLite reports: {error}")
        if code in _BUSY:
            return locked_ledger_error(self.location, round(WAIT_SECONDS * MAX_TRIES))
        reason, hint = _REASONS.get(code, (f"SQLite reports: {error}", "check the file"))
        return LedgerUnavailable(self.location, f"{reason}, so nothing is shown", f"{hint}, then ask again with the same id")


def sync_folder(folder: Path) -> None:
    """Make the names of new files in a folder durable, where folders can be synced."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _error_code(error: sqlite3.Error) -> int:
    """Return the primary error code; 0 if there is none."""
    return int(getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF


# SQLite forbids to carry a connection across a fork, even unused: each side opens its own when it next needs one.
_held_stores: "list[SqliteStore]" = []


def _before_fork() -> None:
    _held_stores.extend(_STORES)
    for store in _held_stores:
        store._lock.acquire()
        store._disconnect()


def _after_fork() -> None:
    while _held_stores:
        _held_stores.pop()._lock.release()


if hasattr(os, "register_at_fork"):  # not where there is no fork
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
