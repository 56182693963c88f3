"""What the control databases in SQLite and PostgreSQL share: tables, transactions, a pool of connections.

Every value is stored as JSON in the column `body`; the other columns are what is looked up. One text of SQL serves both
databases: `?` stands for a value, `{lock}` for a lock on the rows that are read, `{skip}` for the same that passes over rows
which another transaction has locked. SQLite has one writer at a time and needs neither.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Generic, Protocol, TypeVar

from discreet.errors import BadParameter
from discreet.serve.control.errors import ControlMissing, ControlUnavailable
from discreet.serve.control.waiting import Subscription

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE control_people (id TEXT PRIMARY KEY, email TEXT, subject TEXT UNIQUE, "
        "disabled BIGINT NOT NULL, body TEXT NOT NULL)",
        "CREATE INDEX control_people_email ON control_people (email)",
        "CREATE TABLE control_tokens (number {key}, id TEXT NOT NULL UNIQUE, person TEXT NOT NULL, "
        "digest TEXT NOT NULL UNIQUE, body TEXT NOT NULL)",
        "CREATE INDEX control_tokens_person ON control_tokens (person)",
        "CREATE TABLE control_logins (digest TEXT PRIMARY KEY, person TEXT NOT NULL, expires DOUBLE PRECISION NOT NULL, "
        "body TEXT NOT NULL)",
        "CREATE INDEX control_logins_person ON control_logins (person)",
        "CREATE TABLE control_links (digest TEXT PRIMARY KEY, person TEXT NOT NULL, expires DOUBLE PRECISION NOT NULL, "
        "body TEXT NOT NULL)",
        "CREATE TABLE control_populations (name TEXT PRIMARY KEY, body TEXT NOT NULL)",
        "CREATE TABLE control_tables (name TEXT PRIMARY KEY, population TEXT NOT NULL, body TEXT NOT NULL)",
        "CREATE TABLE control_grants (person TEXT NOT NULL, table_name TEXT NOT NULL, account TEXT NOT NULL, "
        "body TEXT NOT NULL, PRIMARY KEY (person, table_name))",
        "CREATE INDEX control_grants_table ON control_grants (table_name)",
        "CREATE INDEX control_grants_account ON control_grants (account)",
        "CREATE TABLE control_troubles (account TEXT NOT NULL, kind TEXT NOT NULL, times BIGINT NOT NULL, "
        "PRIMARY KEY (account, kind))",
        "CREATE TABLE control_snapshots (account TEXT PRIMARY KEY, root TEXT NOT NULL, debits BIGINT NOT NULL, "
        "body TEXT NOT NULL)",
        "CREATE INDEX control_snapshots_root ON control_snapshots (root)",
        "CREATE TABLE control_heads (number BIGINT NOT NULL, hash TEXT NOT NULL, seen DOUBLE PRECISION NOT NULL, "
        "PRIMARY KEY (number, hash))",
        "CREATE TABLE control_asks (number {key}, id TEXT NOT NULL UNIQUE, person TEXT NOT NULL, key TEXT NOT NULL, "
        "table_name TEXT NOT NULL, account TEXT NOT NULL, root TEXT NOT NULL, measurement TEXT NOT NULL, "
        "state TEXT NOT NULL, accepted DOUBLE PRECISION NOT NULL, epsilon TEXT NOT NULL, body TEXT NOT NULL, answer TEXT, "
        "UNIQUE (person, key))",
        "CREATE INDEX control_asks_person ON control_asks (person, accepted)",
        "CREATE INDEX control_asks_table ON control_asks (table_name)",
        "CREATE INDEX control_asks_state ON control_asks (state)",
        "CREATE INDEX control_asks_measurement ON control_asks (root, measurement)",
        "CREATE TABLE control_requests (number {key}, ask TEXT NOT NULL UNIQUE, person TEXT NOT NULL, "
        "table_name TEXT NOT NULL, state TEXT NOT NULL, body TEXT NOT NULL)",
        "CREATE INDEX control_requests_state ON control_requests (state)",
        "CREATE TABLE control_jobs (number {key}, id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, subject TEXT NOT NULL, "
        "person TEXT, state TEXT NOT NULL, lease_until DOUBLE PRECISION, body TEXT NOT NULL)",
        "CREATE INDEX control_jobs_open ON control_jobs (number) WHERE state IN ('queued', 'leased')",
        "CREATE INDEX control_jobs_subject ON control_jobs (subject)",
        "CREATE TABLE control_trail (number BIGINT PRIMARY KEY, seen DOUBLE PRECISION NOT NULL, actor TEXT NOT NULL, "
        "action TEXT NOT NULL, subject TEXT NOT NULL, body TEXT NOT NULL, hash TEXT NOT NULL)",
        "CREATE INDEX control_trail_actor ON control_trail (actor)",
        "CREATE INDEX control_trail_subject ON control_trail (subject)",
        "CREATE TABLE control_trail_head (number BIGINT NOT NULL, hash TEXT NOT NULL)",
        "INSERT INTO control_trail_head VALUES (0, '')",
        "CREATE TABLE control_publications (number {key}, id TEXT NOT NULL UNIQUE, table_name TEXT NOT NULL, "
        "state TEXT NOT NULL, body TEXT NOT NULL)",
        "CREATE TABLE control_proposals (number {key}, table_name TEXT NOT NULL, version BIGINT NOT NULL, "
        "state TEXT NOT NULL, body TEXT NOT NULL, UNIQUE (table_name, version))",
        "CREATE TABLE control_settings (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    ),
    (
        "ALTER TABLE control_snapshots RENAME COLUMN debits TO entry",  # what orders the views of an account
        "ALTER TABLE control_asks ADD COLUMN is_free BIGINT NOT NULL DEFAULT 0",
    ),
    ("CREATE TABLE control_overruns (table_name TEXT PRIMARY KEY, times BIGINT NOT NULL, last DOUBLE PRECISION NOT NULL)",),
)
"""What each version adds to the one before it; `{key}` is a number that the database counts up."""

LATEST_VERSION = len(MIGRATIONS)

Connection = TypeVar("Connection")


class Transaction(Protocol):
    """What happens at once or not at all. Topics in `topics` are notified after the commit."""

    topics: set[str]
    lines: list[Any]  # of the audit trail, written just before the commit

    def run(self, sql: str, *values: Any) -> Any:
        """Run one statement and return its cursor."""

    def lock(self, name: str) -> None:
        """Wait until no other transaction holds the lock of this name, and hold it until the end."""

    def try_lock(self, name: str) -> bool:
        """Take the lock of this name if no other transaction holds it. Returns whether it was free."""


class Database(Protocol):
    """One of the two databases."""

    location: str

    def transaction(
        self, *, write: bool, durable: bool = True, urgent: bool = False,
        before_commit: Callable[[Any], None] | None = None,
    ) -> AbstractContextManager[Any]:  # fmt: skip
        """Begin a transaction; commit it at the end of the block, or roll it back if an exception leaves it. One that is
        urgent waits neither for other threads that want to write nor for a free connection."""

    def subscribe(self, topic: str | None) -> Subscription:
        """Wait for changes that any process commits."""

    def close(self) -> None:
        """Close all connections."""


def migrate(run: Callable[..., Any], location: str, *, key: str, create: bool) -> None:
    """Bring the tables to the latest version, inside the caller's transaction."""
    run("CREATE TABLE IF NOT EXISTS control_schema (version BIGINT NOT NULL)")
    row = run("SELECT version FROM control_schema").fetchone()
    found = check_version(row, location) if row else 0
    if found == 0 and not create:
        raise missing_error(location)
    if row is None:
        run("INSERT INTO control_schema VALUES (0)")
    for statement in (each for version in MIGRATIONS[found:] for each in version):
        run(statement.replace("{key}", key))
    run(f"UPDATE control_schema SET version = {LATEST_VERSION}")


def check_version(row: Any, location: str) -> int:
    """Return the version of the schema.

    Raises:
        ControlUnavailable: if it is none, or one that a later discreet wrote.
    """
    version = row[0] if row else None
    if not isinstance(version, int) or version < 0:
        raise ControlUnavailable(location, "its schema has no version", "restore it from a backup")
    if version > LATEST_VERSION:
        known = f"this discreet knows versions up to {LATEST_VERSION}"
        raise ControlUnavailable(location, f"its schema has version {version}, and {known}", "use a newer discreet")
    return version


def missing_error(location: str) -> ControlMissing:
    """There is no control database at this location."""
    return ControlMissing(location, "there is no control database here", "check the address, or start a worker first")


class UnstorableText(BadParameter):
    """A text that the databases cannot hold: PostgreSQL has no NUL, and neither of them lone surrogates."""


def check_texts(values: tuple[Any, ...]) -> None:
    """Check that the databases can hold these values.

    Raises:
        UnstorableText: if there is one that they cannot.
    """
    for value in values:
        if isinstance(value, str) and ("\0" in value or not _is_unicode(value)):
            raise UnstorableText("text", ascii(value), "holds a character that cannot be stored", "leave it out")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Pool(Generic[Connection]):
    """Open connections. Each serves one thread at a time, at most `limit` at once, and none is carried across a fork."""

    def __init__(
        self,
        connect: Callable[[], Connection],
        disconnect: Callable[[Connection], None],
        is_usable: Callable[[Connection], bool],
        limit: int,
    ) -> None:
        self._connect, self._disconnect, self._is_usable, self._limit = connect, disconnect, is_usable, limit
        self._reset()

    def _reset(self) -> None:
        self._process, self._free, self._lock = os.getpid(), list[Connection](), threading.Lock()
        self._slots, self._is_closed = threading.BoundedSemaphore(self._limit), False

    @contextmanager
    def lend(self, begin: Callable[[Connection], None] | None = None, *, urgent: bool = False) -> Iterator[Connection]:
        """Lend a connection on which `begin` has run. A connection on which that fails, because the server was started
        anew since it was used, is replaced by another; only a new one may fail. One that is urgent is lent beyond the
        limit."""
        if self._process != os.getpid():
            _INHERITED.append(self._free)  # closing them here would disturb the parent process
            self._reset()
        with nullcontext() if urgent else self._slots:
            connection = self._take(begin)
            try:
                yield connection
            finally:
                self._give_back(connection)

    def _take(self, begin: Callable[[Connection], None] | None) -> Connection:
        while True:
            with self._lock:
                used = self._free.pop() if self._free else None
            connection = self._connect() if used is None else used
            try:
                if begin is not None:
                    begin(connection)
            except BaseException as error:
                self._disconnect(connection)
                if used is None or not isinstance(error, Exception):
                    raise
            else:
                return connection

    def _give_back(self, connection: Connection) -> None:
        with self._lock:
            if not self._is_closed and self._is_usable(connection):
                self._free.append(connection)
                return
        self._disconnect(connection)

    def close(self) -> None:
        """Close the connections that are free; those in use are closed when they are given back."""
        if self._process != os.getpid():
            return
        with self._lock:
            free, self._free, self._is_closed = self._free, [], True
        for connection in free:
            self._disconnect(connection)


_INHERITED: list[Any] = []
