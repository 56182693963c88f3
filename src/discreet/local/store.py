"""What a device keeps: its secret, what it spent, and the reports that it may have to send again.

The state never leaves the device. A device that loses it, or is set back to an older copy, forgets what it spent and draws
new permanent noise: it then costs as much as a new device.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Protocol

import msgspec

from discreet._numbers import Number, read_positive
from discreet.errors import BadParameter
from discreet.paths import describe_exposure

SECRET_BYTES = 32

BILLION = 10**9
"""Costs are counted in billionths of ε."""


class Sent(msgspec.Struct):
    """A report as it was drawn: the nonce in hexadecimal, and the integers."""

    nonce: str
    report: tuple[int, ...]


class Entry(msgspec.Struct):
    """What a device did for one collection: how many reports, billionths of ε spent, marks of the states that it paid for,
    and its reports by occasion, None once the receiver has confirmed one."""

    reports: int = 0
    spent: int = 0
    states: list[str] = []
    sent: dict[str, Sent | None] = {}


class DeviceState(msgspec.Struct):
    """All that a device keeps. `limit` bounds what all collections together may spend, in billionths of ε."""

    secret: str
    limit: int | None = None
    collections: dict[str, Entry] = {}

    @property
    def spent(self) -> int:
        """Billionths of ε spent, over all collections."""
        return sum(entry.spent for entry in self.collections.values())


class Store(Protocol):
    """Where a device keeps its state."""

    def transaction(self) -> AbstractContextManager[DeviceState]:
        """Lend the state to one user at a time; keep what became of it, durably, unless an error leaves the block."""
        ...


def new_state(secret: bytes | None = None, limit: int | None = None) -> DeviceState:
    """Return the state of a new device, with a random secret unless a test gives one.

    >>> len(new_state().secret)
    64
    """
    return DeviceState((os.urandom(SECRET_BYTES) if secret is None else secret).hex(), limit)


class MemoryStore:
    """A state that ends with the process: for tests and simulations.

    >>> store = MemoryStore()
    >>> with store.transaction() as state:
    ...     state.limit = 5
    >>> with store.transaction() as state:
    ...     print(state.limit)
    5
    """

    def __init__(self, secret: bytes | None = None, limit: int | None = None) -> None:
        self._stored = msgspec.json.encode(new_state(secret, limit))

    @contextmanager
    def transaction(self) -> Iterator[DeviceState]:
        """Lend a copy; keep it if the block ends well."""
        state = msgspec.json.decode(self._stored, type=DeviceState)
        yield state
        self._stored = msgspec.json.encode(state)


class FileStore:
    """A state in a SQLite file that only its owner can read. A new file takes `epsilon` as the budget of all collections."""

    def __init__(self, path: str | os.PathLike[str], epsilon: Number | None = None) -> None:
        limit = None if epsilon is None else int(read_positive(epsilon, "epsilon") * BILLION)
        self._path = Path(path)
        try:
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            pass
        except OSError as error:
            raise BadParameter("store", str(path), f"cannot be created ({error.strerror})", "name another file") from None
        with open(self._path, "rb") as file:
            exposed = describe_exposure(file.fileno(), self._path)
        if exposed is not None:
            raise BadParameter("store", str(path), *exposed)
        with self._open() as database:
            database.execute("CREATE TABLE IF NOT EXISTS device (id INTEGER PRIMARY KEY, state BLOB NOT NULL)")
            first = msgspec.json.encode(new_state(limit=limit))
            database.execute("INSERT OR IGNORE INTO device VALUES (1, ?)", (first,))

    @contextmanager
    def transaction(self) -> Iterator[DeviceState]:
        """Lock the file, lend its state, and write it back before the block's result can leave the device."""
        with self._open() as database:
            [[stored]] = database.execute("SELECT state FROM device").fetchall()
            state = msgspec.json.decode(stored, type=DeviceState)
            yield state
            database.execute("UPDATE device SET state = ?", (msgspec.json.encode(state),))

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Open the file and hold its lock for one transaction."""
        with closing(sqlite3.connect(self._path, isolation_level=None, timeout=60)) as database:
            try:
                database.execute("BEGIN IMMEDIATE")
            except sqlite3.DatabaseError as error:
                raise BadParameter("store", str(self._path), f"cannot be used ({error})", "name a device's file") from None
            try:
                yield database
            except BaseException:
                database.execute("ROLLBACK")
                raise
            database.execute("COMMIT")
