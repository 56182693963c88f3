"""A connection to PostgreSQL that reads, and writes nothing but its own copies of public tables.

Every query runs in a read-only transaction. Its settings hold for that transaction alone, and decide the text of dates and
the meaning of constants and functions. A connection that was lost is opened again for the next query.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import getpid
from typing import Any, TypeAlias
from weakref import finalize

import psycopg
from psycopg.adapt import Buffer, Loader

from discreet.engines.base import OutOfResources, owner_log
from discreet.errors import EngineFailed, SourceRefused
from discreet.paths import is_unambiguous

BATCH = 20_000
LIBPQ_WITH_BATCHES = 170_000
"""From this version of libpq on, rows come in batches."""
TIMEOUT = "1h"
"""How long a statement may run, unless the role, the database or the address says otherwise
(options=-cstatement_timeout=60s)."""

Prepare: TypeAlias = Callable[[psycopg.Connection[Any]], None]

_SETTINGS = f"""SELECT set_config('DateStyle', 'ISO, YMD', true), set_config('TimeZone', 'UTC', true),
  set_config('standard_conforming_strings', 'on', true), set_config('statement_timeout', COALESCE(
    NULLIF(current_setting('statement_timeout'), '0'), '{TIMEOUT}'), true)"""
_PATH = "SELECT pg_catalog.set_config('search_path', %s, true)"
_OWN_PATH = "SELECT pg_catalog.current_setting('search_path')"


class ReadConnection:
    """A connection to one database."""

    def __init__(self, address: str) -> None:
        self._connection: psycopg.Connection[Any] | None = None
        self._address = _check_address(address)
        self.lock = threading.Lock()
        self.path = "pg_catalog, pg_temp"  # no other function, operator or type is taken for one of PostgreSQL's own
        self._prepared: list[Prepare] = []  # steps that every new connection repeats

    def open(self) -> psycopg.Connection[Any]:
        """Return the connection, and open it again if it was lost."""
        if self._connection is not None and _is_alive(self._connection):
            return self._connection
        connection = psycopg.connect(
            self._address,
            autocommit=True,
            prepare_threshold=None,
            client_encoding="UTF8",
            fallback_application_name="discreet",
        )
        connection.adapters.register_loader("numeric", _IntegerLoader)
        try:
            for prepare in self._prepared:
                prepare(connection)
        except psycopg.Error:
            connection.close()  # half prepared, it would serve no later query either
            raise
        self._connection = connection
        finalize(self, _close_if_owner, connection, getpid())  # holds it, so that it is not gone before it is closed
        return connection

    def prepare(self, step: Prepare) -> None:
        """Run a step now, and again whenever the connection is opened."""
        step(self.open())
        self._prepared.append(step)

    @contextmanager
    def read_transaction(self) -> Iterator[psycopg.Connection[Any]]:
        """Begin a read-only transaction."""
        connection = self.open()
        connection.read_only = True
        with connection.transaction():
            connection.execute(_SETTINGS)
            yield connection

    @contextmanager
    def pinned_transaction(self) -> Iterator[psycopg.Connection[Any]]:
        """Begin a read-only transaction in which names are PostgreSQL's own."""
        with self.read_transaction() as connection:
            connection.execute(_PATH, [self.path])
            yield connection

    def widen_search_path(self) -> None:
        """Look names up in the role's own path too, after PostgreSQL's: a function behind a view may need that."""
        with self.read_transaction() as connection:
            row = connection.execute(_OWN_PATH).fetchone()
        self.path = f"pg_catalog, {row[0]}" if row is not None and row[0] else self.path

    def execute(
        self, statement: str, is_unchanged: Callable[[psycopg.Connection[Any]], bool], *, plain: bool
    ) -> Iterator[tuple[Any, ...]]:
        """Yield rows as they come, so that a million keys are never held at once.

        `is_unchanged` says, in the same transaction, whether the table is the one that was opened; `plain`, that reading it
        calls no function of the owner's.
        """
        try:
            with self.read_transaction() as connection:
                own = connection.execute(_OWN_PATH).fetchone()
                connection.execute(_PATH, [self.path])
                if not is_unchanged(connection):
                    owner_log.warning("the table has changed since it was opened: connect again")
                    raise OutOfResources
                yield from _stream(connection, statement) if plain else _fetch_by_cursor(connection, statement, own)
        except psycopg.Error as error:
            owner_log.warning("%s", error)
            raise (OutOfResources if _is_resource(error) else EngineFailed) from None

    def cancel(self) -> None:
        """Ask the server to end the running statement. Any thread may ask."""
        if self._connection is not None:
            try:
                self._connection.cancel_safe(timeout=5.0)
            except psycopg.Error as error:
                owner_log.warning("%s", error)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()


def _stream(connection: psycopg.Connection[Any], statement: str) -> Iterator[tuple[Any, ...]]:
    """Stream without a cursor on the server, which would exclude parallel workers. Before libpq 17 rows come one by one."""
    with connection.cursor() as cursor:  # the statement is generated, and has no parameters
        yield from cursor.stream(statement, size=BATCH if psycopg.pq.version() >= LIBPQ_WITH_BATCHES else 1)


def _fetch_by_cursor(connection: psycopg.Connection[Any], statement: str, path: Any) -> Iterator[tuple[Any, ...]]:
    """Fetch through a cursor on the server: once the statement is parsed, a function behind a view may need the role's own
    path."""
    with connection.cursor(name="discreet") as cursor:
        cursor.execute(statement)
        connection.execute(_PATH, path)
        while batch := cursor.fetchmany(BATCH):
            yield from batch


RESOURCES = ("08", "25P", "40", "42501", "42P01", "53", "55", "57", "58")
"""Prefixes of the error codes of failures that no row causes: connections, deadlocks, names, permissions, memory, locks,
time-outs and shutdowns. https://www.postgresql.org/docs/current/errcodes-appendix.html"""


def _is_resource(error: psycopg.Error) -> bool:
    """Whether no row caused the failure. One without a code arose in this process: the connection is lost."""
    return error.sqlstate.startswith(RESOURCES) if error.sqlstate else not isinstance(error, psycopg.DataError)


def _close_if_owner(connection: psycopg.Connection[Any], owner: int) -> None:
    """Close a connection, unless this process is a fork of the one that opened it: that would close it for both."""
    if getpid() == owner:
        connection.close()


def _check_address(address: str) -> str:
    """Refuse an address that libpq cannot parse. Its own message would repeat what it could not, which may be the
    password."""
    try:
        known = is_unambiguous(address, psycopg.conninfo.conninfo_to_dict(address))
    except (psycopg.Error, ValueError):
        known = False
    if not known:
        owner_log.warning("the address of a database could not be parsed")
        raise SourceRefused(
            "this address of a database cannot be read", "write @, / and : in a password as %40, %2F and %3A, and check it"
        )
    return address


@contextmanager
def translate_errors(reason: str, hint: str) -> Iterator[None]:
    """Refuse the source for what the server raises, and write its message to the owner's log."""
    try:
        yield
    except psycopg.Error as error:
        owner_log.warning("%s", error)
        raise SourceRefused(reason, hint) from None


class _IntegerLoader(Loader):
    """Loads a numeric as an int: only whole numbers leave the server."""

    def load(self, data: Buffer) -> int:
        return int(bytes(data))


def _is_alive(connection: psycopg.Connection[Any]) -> bool:
    try:
        connection.execute("SELECT 1")
    except psycopg.OperationalError as error:
        owner_log.warning("%s", error)
        connection.close()
        return False
    return True
