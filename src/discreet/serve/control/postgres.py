"""The control database in PostgreSQL: for several machines.

Transactions are READ COMMITTED; what must not change between reading and writing is locked by row (`FOR UPDATE`), and where
there is no row yet, by name (advisory locks). Workers pass over jobs that another worker is claiming (`SKIP LOCKED`). Rows
are locked in one order, jobs before asks before requests, and the audit trail last.

Changes are reported by `NOTIFY` with the commit. One thread per process listens, from the first waiter on.
"""

import os
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from typing import TYPE_CHECKING, Any

from discreet.errors import BadParameter
from discreet.paths import describe_server, first_line_of
from discreet.serve.control.database import LATEST_VERSION, Pool, check_texts, check_version, migrate, missing_error
from discreet.serve.control.errors import ControlUnavailable
from discreet.serve.control.waiting import Hub, Subscription

if TYPE_CHECKING:
    import psycopg

MAX_CONNECTIONS = 16
"""A process opens at most this many connections, besides the one that listens."""
LISTEN_SECONDS = 10.0
"""A waiter waits this long for the listening connection before it goes on without it."""
_MIGRATION = 0x636F6E74726F  # an advisory lock: two processes that open an empty database do not both make the tables
_CHANNEL = "discreet_control"
_SETTINGS = (
    "SET lock_timeout = '30s'; SET statement_timeout = '60s'; "
    "SET idle_in_transaction_session_timeout = '120s'; "  # a client that died silently must not block the others
    "SET default_transaction_isolation = 'read committed'"
)


class PostgresTransaction:
    """As in `Transaction`."""

    def __init__(self, connection: "psycopg.Connection[Any]") -> None:
        self._connection = connection
        self.topics: set[str] = set()
        self.lines: list[Any] = []

    def run(self, sql: str, *values: Any) -> Any:
        """As in `Transaction`."""
        check_texts(values)
        text = sql.replace("{lock}", " FOR UPDATE").replace("{skip}", " FOR UPDATE SKIP LOCKED").replace("?", "%s")
        plain = tuple(value.value if isinstance(value, Enum) else value for value in values)
        return self._connection.execute(text, plain or None)

    def lock(self, name: str) -> None:
        """As in `Transaction`."""
        self.run("SELECT pg_advisory_xact_lock(hashtextextended(?, 0))", f"discreet control: {name}")

    def try_lock(self, name: str) -> bool:
        """As in `Transaction`."""
        sql = "SELECT pg_try_advisory_xact_lock(hashtextextended(?, 0))"
        return bool(self.run(sql, f"discreet control: {name}").fetchone()[0])


class PostgresDatabase:
    """The server."""

    def __init__(self, url: str, *, create: bool = False) -> None:
        try:
            import psycopg
        except ImportError:
            raise BadParameter(
                "control", "postgresql://…", "psycopg is not installed", "pip install 'discreet[postgres]'"
            ) from None
        self._driver, self._url = psycopg, url
        self.location = describe_server(url, "control", psycopg.conninfo.conninfo_to_dict)
        self._pool: Pool[psycopg.Connection[Any]] = Pool(self._connect, self._disconnect, _is_usable, MAX_CONNECTIONS)
        self._listener: _Listener | None = None
        self._listener_lock = threading.Lock()
        self._sender = secrets.token_hex(8)
        try:
            self._migrate(create)
        except BaseException:
            self._pool.close()
            raise

    @contextmanager
    def transaction(
        self, *, write: bool, durable: bool = True, urgent: bool = False,
        before_commit: Callable[[Any], None] | None = None,
    ) -> Iterator[PostgresTransaction]:  # fmt: skip
        """As in `Database`."""

        def begin(connection: "psycopg.Connection[Any]") -> None:
            kind = "READ COMMITTED" if write else "REPEATABLE READ READ ONLY"
            commit = f"SET LOCAL synchronous_commit = {'on' if durable else 'off'}; " if write else ""
            sql = f"BEGIN ISOLATION LEVEL {kind}; {commit}SELECT version FROM control_schema"
            cursor = connection.execute(sql)
            while cursor.nextset():
                pass
            check_version(cursor.fetchone(), self.location)

        with self._translate_errors(), self._pool.lend(begin, urgent=urgent) as connection:
            try:
                transaction = PostgresTransaction(connection)
                yield transaction
                if before_commit is not None:
                    before_commit(transaction)
                for topic in transaction.topics:
                    transaction.run("SELECT pg_notify(?, ?)", _CHANNEL, f"{self._sender} {topic}")
                connection.execute("COMMIT")
            except BaseException:
                with suppress(self._driver.Error):
                    connection.execute("ROLLBACK")
                raise
        listener = self._listener
        if transaction.topics and listener is not None and listener.process == os.getpid():
            listener.hub.notify(*transaction.topics)

    def subscribe(self, topic: str | None) -> Subscription:
        """As in `Database`."""
        with self._listener_lock:
            if self._listener is None or self._listener.process != os.getpid():
                self._listener = _Listener(self._connect, self._driver, self._sender)
            listener = self._listener
        subscription = Subscription(listener.hub, topic)
        listener.ready.wait(LISTEN_SECONDS)
        return subscription

    def close(self) -> None:
        """As in `Database`."""
        with self._listener_lock:
            if self._listener is not None and self._listener.process == os.getpid():
                self._listener.stop()
            self._listener = None
        self._pool.close()

    def _connect(self) -> "psycopg.Connection[Any]":
        connection = self._driver.connect(self._url, autocommit=True)
        try:
            connection.execute(_SETTINGS)
        except BaseException:
            connection.close()
            raise
        return connection

    def _disconnect(self, connection: "psycopg.Connection[Any]") -> None:
        with suppress(self._driver.Error):
            connection.close()

    def _migrate(self, create: bool) -> None:
        with self._translate_errors(), self._pool.lend() as connection:
            row = connection.execute("SELECT to_regclass('control_schema')").fetchone()
            if row is not None and row[0] is not None:
                version = connection.execute("SELECT version FROM control_schema").fetchone()
                if check_version(version, self.location) == LATEST_VERSION:
                    return
            elif not create:
                raise missing_error(self.location)
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATION,))
                run: Any = connection.execute
                key = "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
                migrate(run, self.location, key=key, create=create)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        errors = self._driver.errors
        try:
            yield
        except errors.IntegrityError as error:
            raise BadParameter("id", "taken", "there is such a value already", "choose another id") from error
        except (errors.LockNotAvailable, errors.DeadlockDetected, errors.QueryCanceled) as error:
            raise ControlUnavailable(self.location, "another process holds it", "try again") from error
        except self._driver.Error as error:
            raise ControlUnavailable(self.location, first_line_of(error), "check the server, then try again") from error


class _Listener:
    """A thread that hears what other processes commit, on a connection of its own."""

    def __init__(self, connect: Callable[[], "psycopg.Connection[Any]"], driver: Any, sender: str) -> None:
        self.hub, self.ready, self.process = Hub(), threading.Event(), os.getpid()
        self._connect, self._driver, self._sender = connect, driver, sender
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="discreet control listener", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(5)

    def _listen(self) -> None:
        while not self._stopped.is_set():
            with suppress(self._driver.Error):
                self._hear()
            self.ready.clear()
            self._stopped.wait(0.2)

    def _hear(self) -> None:
        connection = self._connect()
        try:
            connection.execute(f"LISTEN {_CHANNEL}")
            self.ready.set()
            self.hub.notify(None)  # what happened before is unknown
            while not self._stopped.is_set():
                for notice in connection.notifies(timeout=0.25):
                    sender, _, topic = notice.payload.partition(" ")
                    if sender != self._sender:  # its own writers have notified the hub already
                        self.hub.notify(topic)
                    if self._stopped.is_set():
                        break
        finally:
            connection.close()


def _is_usable(connection: "psycopg.Connection[Any]") -> bool:
    """Whether it is connected and no transaction is open on it."""
    return not connection.closed and connection.info.transaction_status == 0
