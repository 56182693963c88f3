"""What a device keeps: its secret, what it spent, and the reports that it may have to send again.

The state never leaves the device. A device that loses it forgets what it spent and draws new permanent noise: it then costs
as much as a new device. A copy of it, or a restored backup, does not know what the other one reported: each draws a report
of its own for the same occasion, and the reports of both add up.

**The device's limit** bounds what all collections together may spend, for life. It may be lowered later and never raised.
It holds between any two histories, so collections whose ε holds only between histories with the same pattern of changes
(`Lifetime.per` "state") are refused under it, unless the owner of the device says `conditional`: the limit then holds on
that condition alone.
"""

import errno
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import Protocol

import msgspec

from discreet._numbers import Number, read_positive
from discreet.errors import BadParameter
from discreet.paths import create_file, describe_exposure, may, reason_of

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
    """All that a device keeps. `limit` bounds what all collections together may spend, in billionths of ε; `conditional`
    says that it may count an ε that holds only between histories with the same pattern of changes."""

    secret: str
    limit: int | None = None
    collections: dict[str, Entry] = {}
    conditional: bool = False

    @property
    def spent(self) -> int:
        """Billionths of ε spent, over all collections."""
        return sum(entry.spent for entry in self.collections.values())


class Store(Protocol):
    """Where a device keeps its state."""

    def transaction(self) -> AbstractContextManager[DeviceState]:
        """Lend the state to one user at a time; keep what became of it, durably, unless an error leaves the block."""
        ...


def new_state(secret: bytes | None = None, limit: int | None = None, *, conditional: bool = False) -> DeviceState:
    """Return the state of a new device, with a random secret unless a test gives one.

    >>> len(new_state().secret)
    64
    """
    made = (os.urandom(SECRET_BYTES) if secret is None else secret).hex()
    return DeviceState(made, limit, conditional=conditional)


def read_state(stored: bytes) -> DeviceState:
    """Read a state, and refuse one that no device can have come to.

    Raises:
        ValueError: it is none.
    """
    state = msgspec.json.decode(stored, type=DeviceState)
    if not re.fullmatch("(?:[0-9a-f]{2})+", state.secret) or len(state.secret) < 2 * SECRET_BYTES:
        raise ValueError("its secret is none")
    if min((min(entry.spent, entry.reports) for entry in state.collections.values()), default=0) < 0:
        raise ValueError("it has spent less than nothing")
    return state


def limit_device(state: DeviceState, limit: int | None, conditional: bool | None) -> None:
    """Lower the limit of a device, for life. None leaves what is stored.

    >>> state = new_state(limit=5 * BILLION)
    >>> limit_device(state, 2 * BILLION, None)
    >>> limit_device(state, 3 * BILLION, None)
    Traceback (most recent call last):
    discreet.errors.BadParameter: epsilon is 3: above the ε = 2 that this device has for life. Leave it out, or give less.
    """
    had = state.limit
    if limit is not None and had is not None and limit > had:
        raise BadParameter(
            "epsilon", f"{limit / BILLION:.10g}", f"above the ε = {had / BILLION:.10g} that this device has for life",
            "leave it out, or give less",
        )  # fmt: skip
    if conditional and not state.conditional and had is not None:
        raise BadParameter(
            "conditional", True, "this device has a limit that holds between any two histories", "leave it out"
        )
    state.limit = had if limit is None else limit
    state.conditional = state.conditional if conditional is None else conditional
    asked = limit is not None or conditional is not None
    if asked and state.limit is not None and not state.conditional and any(e.states for e in state.collections.values()):
        raise BadParameter(
            "epsilon", f"{state.limit / BILLION:.10g}",
            "this device has reported what is protected only between histories with the same pattern of changes",
            "give conditional=True, so that the limit holds on that condition",
        )  # fmt: skip


class MemoryStore:
    """A state that ends with the process: for tests and simulations.

    >>> store = MemoryStore()
    >>> with store.transaction() as state:
    ...     state.limit = 5
    >>> with store.transaction() as state:
    ...     print(state.limit)
    5
    """

    def __init__(self, secret: bytes | None = None, limit: int | None = None, *, conditional: bool = False) -> None:
        self._stored = msgspec.json.encode(new_state(secret, limit, conditional=conditional))

    @contextmanager
    def transaction(self) -> Iterator[DeviceState]:
        """Lend a copy; keep it if the block ends well."""
        state = msgspec.json.decode(self._stored, type=DeviceState)
        yield state
        self._stored = msgspec.json.encode(state)


class FileStore:
    """A state in a SQLite file that only its owner can read.

    `epsilon` is the budget of all collections together, for life: a store that has one takes a smaller one from then on, and
    refuses a larger one. `conditional=True` lets it count collections whose ε holds only on their condition.
    """

    def __init__(
        self, path: str | os.PathLike[str], epsilon: Number | None = None, *, conditional: bool | None = None
    ) -> None:
        limit = None if epsilon is None else int(read_positive(epsilon, "epsilon") * BILLION)
        self._name = os.fspath(path)
        if not isinstance(self._name, str) or self._name in ("", ":memory:") or self._name.startswith("file:"):
            raise BadParameter("store", repr(path), "not the path of a file", "name a file, or use MemoryStore in tests")
        self._path = Path(self._name).absolute()
        self._create()
        with self._open() as database:
            database.execute("CREATE TABLE IF NOT EXISTS device (id INTEGER PRIMARY KEY, state BLOB NOT NULL)")
            rows = database.execute("SELECT state FROM device").fetchall()
            state = self._read(rows) if rows else new_state()
            before = None if not rows else (state.limit, state.conditional)
            limit_device(state, limit, conditional)
            if before != (state.limit, state.conditional):
                database.execute("INSERT OR REPLACE INTO device VALUES (1, ?)", (msgspec.json.encode(state),))

    @contextmanager
    def transaction(self) -> Iterator[DeviceState]:
        """Lock the file, lend its state, and write it back before the block's result can leave the device."""
        with self._open() as database:
            state = self._read(database.execute("SELECT state FROM device").fetchall())
            yield state
            database.execute("UPDATE device SET state = ?", (msgspec.json.encode(state),))

    def _create(self) -> None:
        """Make the file unless it is there, and see that it is one, for its owner alone."""
        try:
            create_file(self._path)
        except (OSError, ValueError) as error:  # a ValueError: a NUL in the path
            raise self._refuse(f"cannot be created ({reason_of(error)})", "name another file") from None
        if not self._path.is_file():
            raise self._refuse("not a file", "name a file")
        if not may(self._path, os.R_OK):
            raise self._refuse(f"cannot be read ({os.strerror(errno.EACCES)})", "name a file of your own")
        exposed = describe_exposure(self._path, self._path)
        if exposed is not None:
            raise self._refuse(*exposed)

    def _refuse(self, reason: str, hint: str) -> BadParameter:
        return BadParameter("store", self._name, reason, hint)

    def _read(self, rows: list[tuple[bytes]]) -> DeviceState:
        """Read the one state of the file."""
        try:
            [[stored]] = rows
            return read_state(stored)
        except (ValueError, TypeError):
            raise self._refuse("holds no state of a device", "restore it, or name a new file: a new device") from None

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Open the file and hold its lock for one transaction; what SQLite refuses, also a full disk, is an error."""
        try:
            with closing(sqlite3.connect(self._path, isolation_level=None, timeout=60)) as database:
                database.execute("BEGIN IMMEDIATE")
                try:
                    yield database
                    database.execute("COMMIT")
                except BaseException:
                    with suppress(sqlite3.Error):  # SQLite has rolled back itself after some errors
                        database.execute("ROLLBACK")
                    raise
        except sqlite3.Error as error:
            reason = f"cannot be used ({error}); nothing was reported"
            raise self._refuse(reason, "name a device's file, on a disk with space") from None
