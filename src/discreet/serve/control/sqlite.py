"""The control database in one SQLite file: for one machine, any number of processes and threads.

Write-ahead log and immediate transactions: writers take turns (`writers.py`), readers never wait. The file is for its owner
alone (mode 0600). Commits are synced to the disk, except those that may be lost in a power cut without harm: a lease, a
mirror.
"""

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from discreet.errors import BadParameter
from discreet.paths import create_file, exists, resolve
from discreet.serve.control.database import LATEST_VERSION, Pool, check_texts, check_version, migrate, missing_error
from discreet.serve.control.errors import ControlUnavailable
from discreet.serve.control.waiting import Hub, Subscription
from discreet.serve.control.writers import Gate, begin_patiently

BUSY_SECONDS = 30.0
"""How long a writer waits for others."""
MAX_CONNECTIONS = 64
CACHE_KILOBYTES = 256
"""What each connection keeps of the file at most. SQLite allows 2,000, which one read of a long history fills in every
connection. More helps one transaction only: the next commit of another connection empties the cache."""

_REASONS = {
    sqlite3.SQLITE_FULL: ("the disk is full", "make room"),
    sqlite3.SQLITE_IOERR: ("the disk failed", "check the disk"),
    sqlite3.SQLITE_READONLY: ("it may not be written", "allow writing to the file and its folder"),
    sqlite3.SQLITE_CANTOPEN: ("it cannot be opened", "name a file in a folder that may be written"),
    sqlite3.SQLITE_NOTADB: ("this file is not a control database", "name another file"),
    sqlite3.SQLITE_CORRUPT: ("the file is damaged", "restore it from a backup"),
    sqlite3.SQLITE_BUSY: ("another process holds it", "end that process, then try again"),
}

_HUBS: "weakref.WeakValueDictionary[tuple[int, str], Hub]" = weakref.WeakValueDictionary()
_HUBS_LOCK = threading.Lock()


def _renew_lock() -> None:
    global _HUBS_LOCK
    _HUBS_LOCK = threading.Lock()


if hasattr(os, "register_at_fork"):  # another thread may have held it
    os.register_at_fork(after_in_child=_renew_lock)


class SqliteTransaction:
    """As in `Transaction`. There is one writer at a time, so no lock is needed."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.topics: set[str] = set()
        self.lines: list[Any] = []

    def run(self, sql: str, *values: Any) -> Any:
        """As in `Transaction`."""
        check_texts(values)
        return self._connection.execute(sql.replace("{lock}", "").replace("{skip}", ""), values)

    def lock(self, name: str) -> None:
        """As in `Transaction`."""

    def try_lock(self, name: str) -> bool:
        """As in `Transaction`."""
        return True


class SqliteDatabase:
    """The file."""

    def __init__(self, path: str | os.PathLike[str], *, create: bool = False) -> None:
        self.path = resolve(path, lambda reason: ControlUnavailable(str(path), reason, "name another file"))
        self.location = str(self.path)
        if create:
            with self._translate_errors():
                create_file(self.path)
        elif not exists(self.path, lambda reason: ControlUnavailable(self.location, reason, "name another file")):
            raise missing_error(self.location)
        self._pool = Pool(self._connect, _disconnect, _is_usable, MAX_CONNECTIONS)
        try:
            self._migrate(create)
        except BaseException:
            self._pool.close()
            raise

    @property
    def _hub(self) -> Hub:
        """The hub of this file in this process. All `SqliteDatabase`s of one file share it."""
        key = (os.getpid(), self.location)
        with _HUBS_LOCK:
            hub = _HUBS.get(key)
            if hub is None:
                hub = _HUBS[key] = Hub()
            if hub.gate is None:
                hub.gate = Gate(self.location)
            self._held_hub = hub
            return hub

    @contextmanager
    def transaction(
        self, *, write: bool, durable: bool = True, urgent: bool = False,
        before_commit: Callable[[Any], None] | None = None,
    ) -> Iterator[SqliteTransaction]:  # fmt: skip
        """As in `Database`."""
        with self._begin_writing(durable, urgent) if write else self._begin_reading() as connection:
            try:
                check_version(connection.execute("SELECT version FROM control_schema").fetchone(), self.location)
                transaction = SqliteTransaction(connection)
                yield transaction
                if before_commit is not None:
                    before_commit(transaction)
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise
        if transaction.topics:
            self._hub.notify(*transaction.topics)

    @contextmanager
    def _begin_reading(self) -> Iterator[sqlite3.Connection]:
        with self._translate_errors(), self._pool.lend() as connection:
            connection.execute("BEGIN")
            yield connection

    @contextmanager
    def _begin_writing(self, durable: bool, urgent: bool) -> Iterator[sqlite3.Connection]:
        """Wait for the other threads of this process, then for other processes. SQLite would have both sleep and try again,
        and who writes without pause would keep them out."""
        hub, deadline = self._hub, time.monotonic() + BUSY_SECONDS
        if not hub.writer.acquire(BUSY_SECONDS, urgent=urgent):
            raise ControlUnavailable(self.location, *_REASONS[sqlite3.SQLITE_BUSY])
        try:
            with self._translate_errors(), self._pool.lend(urgent=urgent) as connection:
                connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
                assert hub.gate is not None
                with hub.gate.hold(deadline), _without_waiting(connection):
                    begin_patiently(lambda: connection.execute("BEGIN IMMEDIATE"), _is_busy, deadline)
                yield connection
        finally:
            hub.writer.release()

    def subscribe(self, topic: str | None) -> Subscription:
        """As in `Database`. A connection of its own tells whether another process has committed."""
        with self._translate_errors():
            connection = self._connect()
        seen = _data_version(connection)

        def look() -> bool:
            nonlocal seen
            with suppress(sqlite3.Error):
                found = _data_version(connection)
                if found != seen:
                    seen = found
                    return True
            return False

        return Subscription(self._hub, topic, look, lambda: _disconnect(connection))

    def close(self) -> None:
        """As in `Database`."""
        self._pool.close()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{self.path.as_uri()}?mode=rw", timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, uri=True
        )
        try:
            if connection.execute("PRAGMA journal_mode=WAL").fetchone()[0] != "wal":
                raise ControlUnavailable(
                    self.location, "SQLite has no write-ahead log here", "put it on a local disk, or use PostgreSQL"
                )
            connection.execute(f"PRAGMA cache_size=-{CACHE_KILOBYTES}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _migrate(self, create: bool) -> None:
        with self._translate_errors(), self._pool.lend() as connection:
            found = 0
            if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'control_schema'").fetchone():
                found = check_version(connection.execute("SELECT version FROM control_schema").fetchone(), self.location)
            if found == LATEST_VERSION:
                return
            connection.execute("BEGIN IMMEDIATE")
            try:
                migrate(connection.execute, self.location, key="INTEGER PRIMARY KEY AUTOINCREMENT", create=create)
                connection.execute("COMMIT")
            except BaseException:
                connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.IntegrityError as error:
            raise BadParameter("id", "taken", "there is such a value already", "choose another id") from error
        except sqlite3.Error as error:
            code = int(getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF
            reason, hint = _REASONS.get(code, (f"SQLite reports: {error}", "check the file"))
            raise ControlUnavailable(self.location, reason, hint) from error
        except OSError as error:
            raise ControlUnavailable(self.location, f"the system refused it ({error.strerror})", "check the disk") from error


@contextmanager
def _without_waiting(connection: sqlite3.Connection) -> Iterator[None]:
    """Have SQLite say at once that another process writes, during this block."""
    connection.execute("PRAGMA busy_timeout=0")
    try:
        yield
    finally:
        connection.execute(f"PRAGMA busy_timeout={1000 * BUSY_SECONDS:.0f}")


def _is_usable(connection: sqlite3.Connection) -> bool:
    return not connection.in_transaction


def _is_busy(error: Exception) -> bool:
    return int(getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF == sqlite3.SQLITE_BUSY


def _data_version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA data_version").fetchone()[0])


def _disconnect(connection: sqlite3.Connection) -> None:
    with suppress(sqlite3.Error):
        connection.close()
