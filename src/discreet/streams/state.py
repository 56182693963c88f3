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

**Units** are kept as keyed hashes (BLAKE2b, 256 bits, a random key per stream), so that the file lists no identities.

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
from typing import Any

from discreet.errors import LedgerUnavailable
from discreet.ledger.sqlite import sync_folder
from discreet.ledger.store import Head
from discreet.streams.factorisation import MAX_COUNT

WAIT_SECONDS = 120.0
UNITS_PER_LOOK = 500

_SCHEMA = """
CREATE TABLE IF NOT EXISTS stream (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS steps
  (step INTEGER PRIMARY KEY, counts TEXT NOT NULL, measured TEXT NOT NULL, head INTEGER, hash BLOB);
CREATE TABLE IF NOT EXISTS units (unit BLOB PRIMARY KEY, events INTEGER NOT NULL, last INTEGER NOT NULL) WITHOUT ROWID;
"""

Measured = list[list[int]]
"""What was measured of a step: rows of C·x plus noise, one column per counter."""

Contribution = tuple[Any, int, int]
"""(unit, rows, counter): how many rows of a step a unit has for a counter."""


class StreamState:
    """The state of one stream, in a file or, without a path, in memory."""

    def __init__(self, path: Path | None, measurement: str, entry: int, steps: int) -> None:
        self.path, self._lock, self._steps = path, threading.RLock(), steps
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
        except sqlite3.Error as error:
            raise self._failed(error) from None
        self._key = self._read("key") or b""

    @staticmethod
    def _make_file(path: Path) -> None:
        try:
            handle = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
            try:
                is_open = os.fstat(handle).st_mode & 0o077
            finally:
                os.close(handle)
            sync_folder(path.parent)
        except OSError as error:
            raise _state_error(path, f"it cannot be made ({error.strerror})", "name another file with state=") from None
        if is_open and os.name == "posix":
            raise _state_error(path, "other users have rights to it", f"take them away: chmod 600 {path}")

    def _bind(self, measurement: str, entry: int) -> None:
        """Write which stream this is the state of; refuse the state of another one."""
        own = f"{measurement} {entry}".encode()
        found = self._read("stream")
        if found is None:
            self._write("stream", own)
            self._write("key", os.urandom(32))
        elif found != own:
            raise _state_error(self.path, "it belongs to another stream", "name another file with state=")

    def count_steps(self) -> int:
        """Return for how many steps the counts are frozen."""
        return int(self._connection.execute("SELECT COALESCE(MAX(step), 0) FROM steps").fetchone()[0])

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
    ) -> None:
        """Cut the contributions of a step, measure its counts, and write down counts, measurement and who counted.

        Nothing changes if another process was first.
        """
        by_unit: dict[bytes, dict[int, int]] = {}
        for unit, rows, counter in contributions:
            mine = by_unit.setdefault(self._hash(unit), {})
            mine[counter] = mine.get(counter, 0) + rows
        with self._lock, self._transaction():
            if self.count_steps() >= step:
                return
            counts = [0] * counters
            for unit in self._admit(step, by_unit, at_most, apart):
                for counter in self._choose(unit, by_unit[unit], max_groups):
                    counts[counter] += min(by_unit[unit][counter], max_rows)
            counts = [min(each, MAX_COUNT) for each in counts]
            frozen = json.dumps(counts), json.dumps(measure(counts)), *((None, None) if head is None else head)
            self._connection.execute("INSERT INTO steps VALUES (?, ?, ?, ?, ?)", (step, *frozen))

    def _admit(self, step: int, units: Iterable[bytes], at_most: int, apart: int) -> list[bytes]:
        """Return the units that may count in this step, and write down that they do."""
        if at_most >= self._steps and apart == 1:  # none is ever cut, so nothing need be known of them
            return list(units)
        admitted = list(units)
        known = {unit: (events, last) for unit, events, last in self._find_units(admitted)}
        admitted = [
            unit for unit in admitted if unit not in known or (known[unit][0] < at_most and step - known[unit][1] >= apart)
        ]
        self._connection.executemany(
            "INSERT INTO units VALUES (?, 1, ?) ON CONFLICT (unit) DO UPDATE SET events = events + 1, last = excluded.last",
            ((unit, step) for unit in admitted),
        )
        return admitted

    def _find_units(self, units: Sequence[bytes]) -> Iterator[tuple[bytes, int, int]]:
        for start in range(0, len(units), UNITS_PER_LOOK):
            part = units[start : start + UNITS_PER_LOOK]
            marks = ",".join("?" * len(part))
            yield from self._connection.execute(f"SELECT unit, events, last FROM units WHERE unit IN ({marks})", part)

    def _choose(self, unit: bytes, counters: Iterable[int], max_groups: int) -> Sequence[int]:
        """Return the counters that a unit counts in, in the order of a keyed hash of the unit and the counter."""
        ordered = sorted(counters)
        if len(ordered) <= max_groups:
            return ordered
        return sorted(ordered, key=lambda counter: blake2b(unit + b"%d" % counter, key=self._key).digest())[:max_groups]

    def _hash(self, unit: Any) -> bytes:
        return blake2b(str(unit).encode("utf-8", "surrogatepass"), key=self._key, digest_size=32).digest()

    @property
    def head(self) -> Head | None:
        """The end of the ledger's chain when the last step was frozen; None if there is none."""
        found = self._connection.execute("SELECT head, hash FROM steps ORDER BY step DESC LIMIT 1").fetchone()
        return None if found is None or found[0] is None else Head(int(found[0]), bytes(found[1]))

    def close(self) -> None:
        """Close the file."""
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
