"""The store in PostgreSQL: for any number of machines.

There is one chain, so there is one lock: every writer first locks the one row of `discreet_schema`. The writer that holds it
sees every entry that was committed before, and with one lock there is no deadlock.
"""

import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from discreet.errors import BadParameter, LedgerCorrupted, LedgerUnavailable
from discreet.ledger.sql_store import (
    LATEST_VERSION,
    SqlTransaction,
    check_version,
    locked_ledger_error,
    missing_ledger_error,
    report_waiting,
    upgrade,
)
from discreet.ledger.store import Returned
from discreet.paths import describe_server, first_line_of

if TYPE_CHECKING:
    import psycopg

FIRST_WAIT_SECONDS = 1
MAX_WAIT_SECONDS = 120
"""A writer waits for others this long, and says so after the first second."""
_MIGRATION = 0x646973637265  # an advisory lock: two processes that open an empty database do not both make the tables
_WAIT_LONGER = f"SET LOCAL lock_timeout = '{MAX_WAIT_SECONDS}s'"
_SETTINGS = (
    "SET synchronous_commit = on",  # not the default of the server or the user: a debit is on the disk when it is made
    f"SET lock_timeout = '{FIRST_WAIT_SECONDS}s'",
    "SET idle_in_transaction_session_timeout = '120s'",  # a client that died silently must not block the others
)


class PostgresStore:
    """The server, through one connection per process."""

    _connection: "psycopg.Connection[Any] | None" = None

    def __init__(self, url: str, *, create: bool = False) -> None:
        try:
            import psycopg
        except ImportError:
            raise BadParameter(
                "ledger", "postgresql://…", "psycopg is not installed", "pip install 'discreet[postgres]'"
            ) from None
        self._errors, self._url = psycopg, url
        self.location = describe_server(url, "ledger", psycopg.conninfo.conninfo_to_dict)
        self._lock, self._owner = threading.RLock(), 0
        with self._lock, self._translate_errors():
            self._upgrade(self._connect(), create)
        _STORES.add(self)

    def transact(self, body: Callable[[SqlTransaction], Returned]) -> Returned:
        """As in `Store`: each thread has a transaction of its own."""
        with self.write_transaction() as transaction:
            return body(transaction)

    def write_transaction(self) -> AbstractContextManager[SqlTransaction]:
        """As in `Store`."""
        return self._transaction("BEGIN ISOLATION LEVEL READ COMMITTED", " FOR UPDATE")

    def read_transaction(self) -> AbstractContextManager[SqlTransaction]:
        """As in `Store`."""
        return self._transaction("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", "")

    def check_integrity(self) -> str | None:
        """As in `Store`: the server checks its own pages."""
        return None

    def close(self) -> None:
        """As in `Store`."""
        with self._lock:
            self._disconnect()

    def __del__(self) -> None:
        self._disconnect()

    @contextmanager
    def _transaction(self, begin: str, lock: str) -> Iterator[SqlTransaction]:
        with self._lock, self._translate_errors():
            connection = self._current_connection()
            try:
                row = self._begin(connection, begin, f"SELECT version FROM discreet_schema{lock}")
                check_version(row, self.location)
                yield SqlTransaction(_make_runner(connection), self.location)
                connection.execute("COMMIT")
            except BaseException:
                with suppress(self._errors.Error):
                    connection.execute("ROLLBACK")
                raise

    def _begin(self, connection: "psycopg.Connection[Any]", begin: str, select: str) -> Any:
        """Begin a transaction and return the row of this statement, which may have to wait for another writer."""
        connection.execute(begin)
        try:
            return connection.execute(select).fetchone()
        except self._errors.errors.LockNotAvailable:
            connection.execute("ROLLBACK")
            report_waiting(self.location)
            connection.execute(begin)
            connection.execute(_WAIT_LONGER)
            return connection.execute(select).fetchone()

    def _current_connection(self) -> "psycopg.Connection[Any]":
        if self._connection is not None and self._owner != os.getpid():
            _INHERITED.append(self._connection)  # closing it here would end it in the parent process
            self._connection = None
        if self._connection is None or self._connection.closed:
            self._connect()
        assert self._connection is not None
        return self._connection

    def _connect(self) -> "psycopg.Connection[Any]":
        connection = self._errors.connect(self._url, autocommit=True)
        self._connection, self._owner = connection, os.getpid()
        for setting in _SETTINGS:
            connection.execute(setting)
        safe = connection.execute("SHOW fsync").fetchone()
        if safe is None or safe[0] != "on":
            raise LedgerUnavailable(self.location, "the server does not sync its disk (fsync = off)", "turn fsync on")
        return connection

    def _upgrade(self, connection: "psycopg.Connection[Any]", create: bool) -> None:
        row = connection.execute("SELECT to_regclass('discreet_schema')").fetchone()
        if row is not None and row[0] is not None:
            version = connection.execute("SELECT version FROM discreet_schema").fetchone()
            if version is not None and version[0] == LATEST_VERSION:
                return
        elif not create:
            raise missing_ledger_error(self.location)
        with connection.transaction():
            connection.execute(_WAIT_LONGER)
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATION,))
            upgrade(_make_runner(connection), self.location, key="BIGINT PRIMARY KEY", bytes="BYTEA", create=create)

    def _disconnect(self) -> None:
        if self._connection is not None and self._owner == os.getpid():
            with suppress(self._errors.Error):
                self._connection.close()
        self._connection = None

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Raise the driver's errors as errors of discreet. After one of them the connection is closed."""
        errors = self._errors.errors
        try:
            yield
        except (errors.IntegrityError, errors.DataCorrupted, errors.IndexCorrupted) as error:
            self._disconnect()
            raise LedgerCorrupted(self.location, f"PostgreSQL reports: {first_line_of(error)}") from error
        except (errors.LockNotAvailable, errors.DeadlockDetected) as error:
            self._disconnect()
            raise locked_ledger_error(self.location, MAX_WAIT_SECONDS) from error
        except self._errors.Error as error:
            self._disconnect()
            raise LedgerUnavailable(
                self.location,
                f"{first_line_of(error)}, so nothing is shown",
                "check the server, then ask again with the same id",
            ) from error


_INHERITED: "list[psycopg.Connection[Any]]" = []
_STORES: "weakref.WeakSet[PostgresStore]" = weakref.WeakSet()


def _reset_locks() -> None:
    """In a forked child, the thread that held a lock is not there to release it."""
    for store in _STORES:
        store._lock = threading.RLock()


if hasattr(os, "register_at_fork"):  # not where there is no fork
    os.register_at_fork(after_in_child=_reset_locks)


def _make_runner(connection: "psycopg.Connection[Any]") -> Any:
    def run(sql: str, values: tuple[Any, ...]) -> Any:
        return connection.execute(sql.replace("?", "%s"), values or None)

    return run
