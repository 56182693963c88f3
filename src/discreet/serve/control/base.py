"""What the parts of `Control` share: transactions that may be nested, values to and from JSON, pages of a list."""

import hashlib
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import msgspec

from discreet.errors import BadParameter
from discreet.serve.control.database import Database, Transaction, UnstorableText
from discreet.serve.control.trail import Line, append_lines

Value = TypeVar("Value", bound=msgspec.Struct)

MAX_PAGE = 200
"""The most values that a page of a list holds."""
DEFAULT_PAGE = 50
CURSOR = r"^n(0|[1-9][0-9]{0,17})$"
"""How the place in a list is written."""


class Page(msgspec.Struct, Generic[Value], frozen=True):
    """Some values of a list, and the cursor that continues it; None at its end."""

    items: tuple[Value, ...]
    cursor: str | None = None


class Part:
    """One database, seen by a part of `Control`."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database, self._clock = database, clock
        self._local = threading.local()

    @contextmanager
    def transaction(self, *, durable: bool = True, urgent: bool = False) -> Iterator[None]:
        """Make all calls in this block one transaction: all of them happen, or none.

        Calls of other threads are not part of it. Lines of the audit trail are written at its end. What is urgent, such as
        a lease that must not end, goes before the other writes of this process.
        """
        with self._write(durable=durable, urgent=urgent):
            yield

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Make all reads of this thread in this block one transaction, which sees the database at one moment. A write in it
        is a transaction of its own."""
        if self._current is not None:
            yield
            return
        with self._database.transaction(write=False) as transaction:
            self._local.reading = transaction
            try:
                yield
            finally:
                self._local.reading = None

    @property
    def _current(self) -> Transaction | None:
        """The transaction of this thread that a read is part of."""
        found: Transaction | None = getattr(self._local, "transaction", None) or getattr(self._local, "reading", None)
        return found

    @property
    def _is_writing(self) -> bool:
        return getattr(self._local, "transaction", None) is not None

    @contextmanager
    def _write(self, *, durable: bool = True, urgent: bool = False) -> Iterator[Transaction]:
        current = getattr(self._local, "transaction", None)
        if current is not None:
            yield current
            return
        begin = self._database.transaction(write=True, durable=durable, urgent=urgent, before_commit=self._append_lines)
        with begin as transaction:
            self._local.transaction = transaction
            try:
                yield transaction
            finally:
                self._local.transaction = None

    @contextmanager
    def _read(self) -> Iterator[Transaction]:
        current = self._current
        if current is not None:
            yield current
            return
        with self._database.transaction(write=False) as transaction:
            yield transaction

    def _append_lines(self, transaction: Transaction) -> None:
        append_lines(transaction, transaction.lines, self._clock())

    def _record(self, transaction: Transaction, by: str | None, action: str, subject: str, **details: Any) -> None:
        """Write a line of the audit trail with this transaction, if an actor is named."""
        if by is not None:
            transaction.lines.append(Line(by, action, subject, details))

    def _find(self, kind: type[Value], sql: str, *values: Any) -> Value | None:
        with self._read() as transaction:
            return find(transaction, kind, sql, *values)

    def _list(self, kind: type[Value], sql: str, *values: Any) -> tuple[Value, ...]:
        with self._read() as transaction:
            return tuple(decode(kind, row[0]) for row in find_rows(transaction, sql, *values))

    def _page(
        self,
        kind: type[Value],
        table: str,
        filters: dict[str, Any],
        cursor: str | None,
        limit: int,
        columns: str = "body",
        read: Callable[..., Value] | None = None,
    ) -> Page[Value]:
        """Return the newest values of a table that has a `number`, those before the cursor."""
        limit = max(1, min(limit, MAX_PAGE))
        wheres = [f"{column} = ?" for column, value in filters.items() if value is not None]
        values = [value for value in filters.values() if value is not None]
        if cursor is not None:
            wheres.append("number < ?")
            values.append(read_cursor(cursor))
        where = f" WHERE {' AND '.join(wheres)}" if wheres else ""
        with self._read() as transaction:
            sql = f"SELECT number, {columns} FROM {table}{where} ORDER BY number DESC LIMIT {limit + 1}"
            rows = find_rows(transaction, sql, *values)
        items = tuple(decode(kind, row[1]) if read is None else read(*row[1:]) for row in rows[:limit])
        return Page(items, write_cursor(rows[limit - 1][0]) if len(rows) > limit else None)


def find(transaction: Transaction, kind: type[Value], sql: str, *values: Any) -> Value | None:
    """Return the value of the one row, or None."""
    rows = find_rows(transaction, sql, *values)
    return decode(kind, rows[0][0]) if rows else None


def find_rows(transaction: Transaction, sql: str, *values: Any) -> list[Any]:
    """Return the rows of a SELECT. A text that cannot be stored is in none."""
    try:
        return list(transaction.run(sql, *values).fetchall())
    except UnstorableText:
        return []


def encode(value: msgspec.Struct | dict[str, Any]) -> str:
    """Write a value as JSON.

    Raises:
        UnstorableText: if a text in it is not Unicode.
    """
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError as error:
        text = ascii(error.object[error.start : error.end])
        raise UnstorableText("text", text, "holds a character that cannot be stored", "leave it out") from None


def decode(kind: type[Value], text: str) -> Value:
    """Read a value from JSON."""
    return msgspec.json.decode(text, type=kind)


def new_id() -> str:
    """Return a random id of 16 bytes."""
    return secrets.token_hex(16)


def digest_secret(secret: str) -> str:
    """Return what is stored of a secret. A secret has 256 random bits, so its SHA-256 needs no salt.

    >>> digest_secret("dsc_example")[:16]
    '618f4b96101f083c'
    """
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def write_cursor(number: int) -> str:
    """Write the place in a list.

    >>> write_cursor(12)
    'n12'
    """
    return f"n{number}"


def read_cursor(cursor: str) -> int:
    """Read the place in a list.

    Raises:
        BadParameter: if it is no cursor.
    """
    if re.fullmatch(CURSOR, cursor) is None:
        raise BadParameter("cursor", ascii(cursor[:40]), "is no cursor", "use the cursor of the page before")
    return int(cursor[1:])
