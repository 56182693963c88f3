"""The owner's state of a stream: the exact counts of past steps, what was measured of them, and in which steps each unit
has counted.

**What it is for.** A stream measures C·x, which needs the exact counts x_1..x_t of all past steps, and lets a unit count
in at most `at_most` steps. Both are private, so neither may be in the ledger, which analysts read. They are in one
SQLite file that only the owner may read (mode 0600), in the folder of the owner's state unless another is named.

**The past is frozen.** Computing who counted when from the rows of the source, at every step anew, would let a unit
whose rows were re-dated, deleted and entered again count more often than `at_most`, and would revise x_t of steps that
were shown: a row that is re-dated once could cost as much as two events, and one re-dated at every step as much as all
steps. So both are written down at their step, in one transaction, and never computed again. A unit's past decides alone
whether it counts: never the rows of other units.

**Units** are kept as keyed hashes (BLAKE2b, 256 bits, a random key per stream), so that the file lists no identities. The
table `units` has one row for each; its keys are random, so that a step of a hundred units would rewrite about a hundred
pages. So a step only appends the list of the units that counted in it (`recent`), and when the lists hold `MERGE_AT` units,
they are added to the table and removed, in the transaction of that step. A unit has counted as often as the table and the
lists say together. Each process keeps the lists in memory, for as long as the file says that none was added to the table.

**One noise.** What is measured of a step, counts and noise, is written down in the same transaction as its counts,
before the ledger records it. So whatever becomes of the ledger, a step has one noisy value, and no second one is ever
drawn; and two processes that tick the same step record the same value.

**Rollbacks.** Each step holds the end of the ledger's chain as it was then. A ledger that does not continue that chain
is an older copy, whose debits were lost: `stream` refuses it.
"""

import json
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from discreet.errors import LedgerUnavailable
from discreet.ledger.sqlite import sync_folder
from discreet.ledger.store import Head
from discreet.ledger.wal import WriteAheadLog
from discreet.paths import create_file
from discreet.streams.factorisation import MAX_COUNT

WAIT_SECONDS = 120.0
UNITS_PER_LOOK = 500
MERGE_AT = 2000
HASH_BYTES = 32

_SCHEMA = """
CREATE TABLE IF NOT EXISTS stream (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS steps
  (step INTEGER PRIMARY KEY, counts TEXT NOT NULL, measured TEXT NOT NULL, head INTEGER, hash BLOB);
CREATE TABLE IF NOT EXISTS units (unit BLOB PRIMARY KEY, events INTEGER NOT NULL, last INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS recent (step INTEGER PRIMARY KEY, units BLOB NOT NULL);
"""

Measured = list[list[int]]
"""What was measured of a step: rows of C·x plus noise, one column per counter."""


class FrozenStep(NamedTuple):
    """A step as it was frozen."""

    step: int
    measured: Measured
    head: Head | None  # the end of the ledger's chain then


Contribution = tuple[Any, int, int]
"""(unit, rows, counter): how many rows of a step a unit has for a counter."""


class StreamState:
    """The state of one stream, in a file or, without a path, in memory."""

    def __init__(self, path: Path | None, measurement: str, entry: int, steps: int) -> None:
        self.path, self._lock, self._steps = path, threading.RLock(), steps
        self._log: WriteAheadLog | None = None
        self._recent: dict[bytes, tuple[int, int]] = {}  # of the lists: in how many steps a unit counted, and the last
        self._merged = self._taken = 0  # the last step that was added to the table, and the last that is in memory
        if path is not None:
            self._make_file(path)
        try:
            self._connection = sqlite3.connect(
                ":memory:" if path is None else path, timeout=WAIT_SECONDS, isolation_level=None, check_same_thread=False
            )
            if path is not None:
                self._connection.execute("PRAGMA journal_mode=WAL")
                self._connection.execute("PRAGMA synchronous=FULL")
            with self._transaction():
                for statement in filter(str.strip, _SCHEMA.split(";")):
                    self._connection.execute(statement)
                self._bind(measurement, entry)
            if path is not None:
                self._log = WriteAheadLog(str(path))
        except sqlite3.Error as error:
            raise self._failed(error) from None
        self._key = self._read("key") or b""
        self._keyed = blake2b(key=self._key, digest_size=HASH_BYTES)

    @staticmethod
    def _make_file(path: Path) -> None:
        try:
            create_file(path)
            is_open = os.stat(path).st_mode & 0o077
            sync_folder(path.parent)
        except OSError as error:
            raise _state_error(path, f"it cannot be made ({error.strerror})", "name another file with state=") from None
        if is_open and os.name == "posix":
            raise _state_error(path, "other users have rights to it", f"take them away: chmod 600 {path}")

    def _bind(self, measurement: str, entry: int) -> None:
        """Write which stream this is the state of; refuse the state of another one. A file without lists of units is taken
        over, and its name is changed: an earlier version, which would not look at the lists, refuses it from then on."""
        earlier = f"{measurement} {entry}".encode()
        own = earlier + b" with lists"
        found = self._read("stream")
        if found is None:
            self._write("key", os.urandom(32))
        if found is None or found == earlier:
            self._write("stream", own)
        elif found != own:
            raise _state_error(self.path, "it belongs to another stream", "name another file with state=")

    def read_last(self) -> FrozenStep | None:
        """Return the last step that is frozen; None before the first."""
        found = self._connection.execute(
            "SELECT step, measured, head, hash FROM steps ORDER BY step DESC LIMIT 1"
        ).fetchone()
        if found is None:
            return None
        step, measured, number, link = found
        return FrozenStep(int(step), json.loads(measured), None if number is None else Head(int(number), bytes(link)))

    def read_counts(self, after: int = 0) -> list[list[int]]:
        """Return the frozen counts of all steps after this one, in order."""
        rows = self._connection.execute("SELECT counts FROM steps WHERE step > ? ORDER BY step", (after,))
        return [json.loads(row[0]) for row in rows]

    def read_measured(self, step: int) -> Measured | None:
        """Return what was measured of a step; None if it is not frozen."""
        found = self._connection.execute("SELECT measured FROM steps WHERE step = ?", (step,)).fetchone()
        return None if found is None else json.loads(found[0])

    def freeze(
        self,
        step: int,
        contributions: Iterable[Contribution],
        measure: Callable[[list[int]], Measured],
        head: Head | None,
        *,
        counters: int,
        at_most: int,
        apart: int,
        max_groups: int,
        max_rows: int,
    ) -> Measured:
        """Cut the contributions of a step, measure its counts, and write down counts, measurement and who counted.

        Returns:
            What was measured. If another process was first, what that one froze; nothing changes then.
        """
        by_unit: dict[bytes, dict[int, int]] = {}
        for unit, rows, counter in contributions:
            mine = by_unit.setdefault(self._hash(unit), {})
            mine[counter] = mine.get(counter, 0) + rows
        with self._lock:
            try:
                with self._transaction():
                    first = self.read_measured(step)
                    if first is not None:
                        return first
                    counts = [0] * counters
                    for unit in self._admit(step, by_unit, at_most, apart):
                        mine = by_unit[unit]
                        for counter in mine if len(mine) <= max_groups else self._choose(unit, mine, max_groups):
                            counts[counter] += min(mine[counter], max_rows)
                    counts = [min(each, MAX_COUNT) for each in counts]
                    measured = measure(counts)
                    frozen = json.dumps(counts), json.dumps(measured), *((None, None) if head is None else head)
                    self._connection.execute("INSERT INTO steps VALUES (?, ?, ?, ?, ?)", (step, *frozen))
            except BaseException:
                self._merged = -1  # what is in memory may be of a step that is not in the file: read the lists again
                raise
        return measured

    def _admit(self, step: int, units: Iterable[bytes], at_most: int, apart: int) -> list[bytes]:
        """Return the units that may count in this step, and write down that they do."""
        if at_most >= self._steps and apart == 1:  # none is ever cut, so nothing need be known of them
            return list(units)
        recent, latest = self._take_recent(), step - apart
        never = 0, latest
        possible = [unit for unit in units if recent.get(unit, never)[1] <= latest and recent.get(unit, never)[0] < at_most]
        most = max((recent[unit][0] for unit in possible if unit in recent), default=0)
        barred = {
            unit
            for unit, events, last in self._find_units(possible, at_most - most, latest)
            if last > latest or events + recent.get(unit, never)[0] >= at_most
        }
        admitted = [unit for unit in possible if unit not in barred]
        self._connection.execute("INSERT INTO recent VALUES (?, ?)", (step, b"".join(admitted)))
        if len(recent) + len(admitted) >= MERGE_AT:
            self._merge(step)
        return admitted

    def _take_recent(self) -> dict[bytes, tuple[int, int]]:
        """Return the units of all lists, inside a transaction: in how many of these steps each counted, and the last."""
        merged = int(self._read("merged") or 0)
        if merged != self._merged:
            self._recent, self._merged, self._taken = {}, merged, merged
        rows = self._connection.execute("SELECT step, units FROM recent WHERE step > ? ORDER BY step", (self._taken,))
        for step, units in rows:
            for start in range(0, len(units), HASH_BYTES):
                unit = units[start : start + HASH_BYTES]
                self._recent[unit] = self._recent.get(unit, (0, 0))[0] + 1, step
            self._taken = step
        return self._recent

    def _merge(self, step: int) -> None:
        """Add all lists to the table, inside a transaction; in the order of the keys, which touches each page once."""
        self._connection.executemany(
            "INSERT INTO units VALUES (?, ?, ?) "
            "ON CONFLICT (unit) DO UPDATE SET events = events + excluded.events, last = excluded.last",
            sorted((unit, events, last) for unit, (events, last) in self._take_recent().items()),
        )
        self._connection.execute("DELETE FROM recent")
        self._write("merged", b"%d" % step)

    def _find_units(self, units: Sequence[bytes], events: int, latest: int) -> Iterator[tuple[bytes, int, int]]:
        """Yield those of the units that, by the table, counted in so many steps, or in one after the step `latest`."""
        for start in range(0, len(units), UNITS_PER_LOOK):
            part = units[start : start + UNITS_PER_LOOK]
            marks = ",".join("?" * len(part))
            yield from self._connection.execute(
                f"SELECT unit, events, last FROM units WHERE unit IN ({marks}) AND (events >= ? OR last > ?)",
                (*part, events, latest),
            )

    def _choose(self, unit: bytes, counters: Iterable[int], max_groups: int) -> Sequence[int]:
        """Return the counters that a unit counts in, in the order of a keyed hash of the unit and the counter."""
        by_hash = sorted(counters, key=lambda counter: blake2b(unit + b"%d" % counter, key=self._key).digest())
        return by_hash[:max_groups]

    def _hash(self, unit: Any) -> bytes:
        keyed = self._keyed.copy()
        keyed.update(str(unit).encode("utf-8", "surrogatepass"))
        return keyed.digest()

    def close(self) -> None:
        """Close the file."""
        if self._log is not None:
            self._log.close()
        self._connection.close()

    def _read(self, name: str) -> bytes | None:
        found = self._connection.execute("SELECT value FROM stream WHERE name = ?", (name,)).fetchone()
        return None if found is None else bytes(found[0])

    def _write(self, name: str, value: bytes) -> None:
        self._connection.execute(
            "INSERT INTO stream VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", (name, value)
        )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                if self._log is not None:
                    self._log.extend()
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise self._failed(error) from None

    def _failed(self, error: sqlite3.Error) -> LedgerUnavailable:
        return _state_error(self.path, f"SQLite reports: {error}", "check the file and its disk, then tick again")


def _state_error(path: Path | None, reason: str, hint: str) -> LedgerUnavailable:
    return LedgerUnavailable(str(path or "in memory"), f"the owner's state of this stream: {reason}", hint)
