"""A ledger in one SQLite file: for one machine, any number of processes and threads.

Write-ahead log, `synchronous=FULL` and immediate transactions: a commit is on the disk when it returns, and writers wait in
line. Whatever goes wrong (a full disk, a failing one, a file that was replaced) ends in an error before anything is shown.
"""

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from discreet.errors import BadParameter, DiscreetError, LedgerBroken, LedgerFailed
from discreet.ledger.pages import Pages
from discreet.ledger.schema import NEWEST, absent, known, upgrade
from discreet.paths import exists, resolve

WAIT = 5.0
TRIES = 24
"""A writer waits in line this many times `WAIT` seconds. Counted, not timed: a clock that jumps changes nothing."""

_SAID = {
    sqlite3.SQLITE_FULL: ("the disk is full", "make room"),
    sqlite3.SQLITE_IOERR: ("the disk failed, or a limit on the size of files was reached", "look at the disk"),
    sqlite3.SQLITE_READONLY: ("it may not be written", "allow writing to the file and its folder"),
    sqlite3.SQLITE_CANTOPEN: ("it cannot be opened", "name a file in a folder that may be written"),
    sqlite3.SQLITE_PERM: ("it may not be opened", "allow reading and writing it"),
    sqlite3.SQLITE_AUTH: ("it may not be opened", "allow reading and writing it"),
}
_ALLOW = "allow it, or name another file"
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}
_BROKEN = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_CONSTRAINT}


_STORES: "weakref.WeakSet[SqliteStore]" = weakref.WeakSet()


class SqliteStore:
    """The file, through one connection per process."""

    _connection: sqlite3.Connection | None = None

    def __init__(self, path: str | os.PathLike[str], *, create: bool = False) -> None:
        if str(path) in ("", ":memory:"):
            raise BadParameter(
                "ledger", repr(str(path)), "a budget in memory ends with the process", "name a file, or do without a ledger"
            )
        self.path = resolve(path, lambda reason: LedgerFailed(str(path), reason, "name another file"))
        self.where = str(self.path)
        self._lock = threading.RLock()
        self._file = (0, 0)
        with self._lock:
            self._connect(create)
        _STORES.add(self)

    @contextmanager
    def writing(self) -> Iterator[Pages]:
        """As in `Store`."""
        with self._lock, self._transaction("BEGIN IMMEDIATE") as pages:
            yield pages

    @contextmanager
    def reading(self) -> Iterator[Pages]:
        """As in `Store`."""
        with self._lock, self._transaction("BEGIN") as pages:
            yield pages

    def close(self) -> None:
        """As in `Store`."""
        with self._lock:
            self._drop()

    def sound(self) -> str | None:
        """What SQLite itself finds wrong with the file."""
        with self.reading() as pages:
            said = str(pages.run("PRAGMA integrity_check(1)", ()).fetchone()[0])
        return None if said == "ok" else said

    def __del__(self) -> None:
        self._drop()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[Pages]:
        with self._translated():
            connection = self._current()
            try:
                self._patiently(begin)
                row = connection.execute("SELECT version FROM discreet_schema").fetchone()
                known(row, self.where)
                yield Pages(connection.execute, self.where)
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise

    def _current(self) -> sqlite3.Connection:
        """The connection, made anew after a fork or a failure; never to a file that is no longer at its place."""
        if self._connection is None:
            self._connect(create=False)
        if self._file != self._place():
            self._drop()
            raise LedgerFailed(self.where, "the file was moved, removed or replaced", "put it back, then open it again")
        assert self._connection is not None
        return self._connection

    def _connect(self, create: bool) -> None:
        if not create and not exists(self.path, lambda reason: LedgerFailed(self.where, reason, _ALLOW)):
            raise absent(self.where)
        with self._translated():
            if create:  # for its owner alone; others have rights when the owner gives them
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            uri = f"{self.path.as_uri()}?mode=rw"
            self._connection = sqlite3.connect(uri, WAIT, isolation_level=None, check_same_thread=False, uri=True)
            self._file = self._place()
            if self._patiently("PRAGMA journal_mode=WAL").fetchone()[0] != "wal":
                raise LedgerFailed(self.where, "no write-ahead log here", "put it on a local disk, or use PostgreSQL")
            self._connection.execute("PRAGMA synchronous=FULL")
            if self._version() != NEWEST:
                self._upgrade(create)

    def _version(self) -> int:
        assert self._connection is not None
        table = self._patiently("SELECT 1 FROM sqlite_master WHERE name = 'discreet_schema'").fetchone()
        return known(self._connection.execute("SELECT version FROM discreet_schema").fetchone(), self.where) if table else 0

    def _upgrade(self, create: bool) -> None:
        connection = self._connection
        assert connection is not None
        self._patiently("BEGIN IMMEDIATE")
        try:
            upgrade(connection.execute, self.where, key="INTEGER PRIMARY KEY", bytes="BLOB", create=create)
            connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise
        sync_folder(self.path.parent)

    def _patiently(self, statement: str) -> Any:
        assert self._connection is not None
        for attempt in range(TRIES):
            try:
                return self._connection.execute(statement)
            except sqlite3.OperationalError as error:
                if _code(error) not in _BUSY or attempt == TRIES - 1:
                    raise
                time.sleep(0.01 * attempt)
        raise AssertionError("unreachable")

    def _place(self) -> tuple[int, int]:
        try:
            found = os.stat(self.path)
        except OSError:
            return 0, 0
        return found.st_dev, found.st_ino

    def _drop(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
        self._connection = None

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """SQLite's errors in our words. After one of them the connection is not trusted any more."""
        try:
            yield
        except sqlite3.Error as error:
            self._drop()
            raise self._meaning(error) from error
        except UnicodeDecodeError as error:
            self._drop()
            raise LedgerBroken(self.where, "what should be text is not") from error
        except OSError as error:
            self._drop()
            way_out = _ALLOW if isinstance(error, PermissionError) else "look at the disk"
            raise LedgerFailed(self.where, f"the system refused: {error.strerror}", way_out) from error

    def _meaning(self, error: sqlite3.Error) -> DiscreetError:
        code = _code(error)
        if code in _BROKEN:
            return LedgerBroken(self.where, f"SQLite says: {error}")
        if code in _BUSY:
            return LedgerFailed(self.where, "others have been writing to it for too long", "ask again with the same id")
        reason, way_out = _SAID.get(code, (f"SQLite says: {error}", "look at the file"))
        return LedgerFailed(self.where, f"{reason}, so nothing is shown", f"{way_out}, then ask again with the same id")


def sync_folder(folder: Path) -> None:
    """Make the names of new files in a folder durable, where folders can be synced."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _code(error: sqlite3.Error) -> int:
    """The primary error code; 0 if there is none."""
    return int(getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF


# A connection must not be carried across a fork, not even unused: each side makes its own when it next needs one.
_held: "list[SqliteStore]" = []


def _before_fork() -> None:
    _held.extend(_STORES)
    for store in _held:
        store._lock.acquire()
        store._drop()


def _after_fork() -> None:
    while _held:
        _held.pop()._lock.release()


if hasattr(os, "register_at_fork"):  # where there is no fork there is nothing to mind
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
