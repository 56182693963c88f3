"""Streams: the error of a horizon, and what a tick takes beside the ledger's own writes: `python benchmarks/streams.py`.

The errors are compared with those of the square-root factorisation in real numbers, from its definition, and with a binary
tree. A tick is timed without the engine, whose time is that of a GROUP BY: what is left is looking for the record, cutting
contributions, C·x, noise, the owner's state and the estimate with its interval.
"""

import os
import sqlite3
import sys
import tempfile
import time
from fractions import Fraction
from math import sqrt
from pathlib import Path
from statistics import median
from types import SimpleNamespace

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from benchmarks.table import Section  # noqa: E402
from discreet.accounting.currencies import parse_currency  # noqa: E402
from discreet.events import NO_EVENT  # noqa: E402
from discreet.ledger import open_ledger  # noqa: E402
from discreet.ledger.chain import LedgerAccount  # noqa: E402
from discreet.streams.factorisation import Tree, square_root  # noqa: E402
from discreet.streams.mechanism import Participation, calibrate_stream  # noqa: E402
from discreet.streams.schedule import Schedule  # noqa: E402
from discreet.streams.state import Contribution, StreamState  # noqa: E402
from discreet.streams.stream import Stream, StreamDesign, debit_horizon  # noqa: E402

HORIZONS = (64, 256, 1024, 4096)
TICKS, UNITS = 1024, 100
GOAL_MS = 1


def real_square_root_error(n: int) -> float:
    """The largest error per unit of σ/Δ with real coefficients: Σ r_j², since B = C."""
    total, r = 0.0, 1.0
    for j in range(1, n + 1):
        total += r * r
        r *= (2 * j - 1) / (2 * j)
    return total


def measure_errors() -> Section:
    """The largest error of a running total, per unit of σ/Δ, one event per unit."""
    section = Section(
        "Streams: the largest error of a running total, in units of σ/Δ",
        "One event per unit, add or remove. Integers: what discreet draws noise for. The goal is at most 1.01 times the "
        "square root in real numbers.",
        ["steps", "integers", "real square root", "ratio", "binary tree", "noise on every step", "time of the tables"],
    )
    for n in HORIZONS:
        started = time.perf_counter()
        root = square_root(n)
        error = sqrt(root.max_squares(1, 1) * root.sum_squares(n))
        elapsed, real, tree = time.perf_counter() - started, real_square_root_error(n), Tree(n)
        nodes = max(len(tree.nodes(step)) for step in range(1, n + 1))
        section.add(
            f"{n}", f"{error:.5f}", f"{real:.5f}", f"{error / real:.5f}", f"{sqrt(tree.levels * nodes):.2f}",
            f"{sqrt(n):.1f}", f"{elapsed:.2f} s",
        )  # fmt: skip
    return section


class TimedStream(Stream):
    """A stream over a hundred units at every step, without an engine."""

    def _read_contributions(self, step: int) -> list[Contribution]:
        return [(f"unit {(step * 37 + i) % 5000}", 1, 0) for i in range(UNITS)]


def open_timed(folder: Path, currency: str) -> Stream:
    """A ledger, an account and a stream of `TICKS` steps."""
    account = open_ledger(folder / f"{currency}.ledger", create=True).open_account(
        "hr", 2, Fraction(0 if currency == "pure" else 1, 10**6), parse_currency(currency)
    )
    taken = Participation(3, 7)
    mechanism, event = calibrate_stream(TICKS, taken, parse_currency(currency), Fraction(1, 100))
    design = StreamDesign(
        "visits", "rows", None, "", "n", (), ((),), "day", Schedule.parse("day", "2020-01-01"), TICKS, taken, "id", mechanism
    )
    entry = debit_horizon(account, design, event, "c0ffee")
    state = StreamState(folder / f"{currency}.sqlite", "c0ffee", entry, TICKS)
    engine = SimpleNamespace(has_new_files=lambda: False)
    anything: object = SimpleNamespace(executor=SimpleNamespace(engine=engine))  # a scripted stream reads no source
    return TimedStream(design, "c0ffee", entry, account, anything, anything, state)  # type: ignore[arg-type]


def measure_ticks() -> Section:
    """What a tick takes beside what is written: at the beginning and at the end of a long horizon."""
    section = Section(
        "Streams: a tick beside its writes",
        f"Medians over 200 ticks of a stream of {TICKS} steps, {UNITS} units per step, without the engine. A step is "
        "written to the ledger (a debit and an answer: two commits) and, between them, to the owner's state (one). The "
        "ledger's write is both calls on a ledger of its own, timed in turn with the ticks; a plain commit is one row in a "
        "database of its own. What is over the ledger's write holds the state's commit.",
        ["noise, files in", "steps", "tick", "ledger's write", "over it", "goal", "plain commit"],
    )
    folders = [None] if not os.access("/dev/shm", os.W_OK) else ["/dev/shm", None]
    for place in folders:
        for currency in ("zcdp", "pure"):
            with tempfile.TemporaryDirectory(dir=place) as folder:
                stream = open_timed(Path(folder), currency)
                for first in (1, TICKS - 200):
                    for _ in range(len(stream._measured), first - 1):
                        stream.tick()
                    ticks, writes, marks = list[float](), list[float](), list[float]()
                    plain = open_ledger(Path(folder) / f"plain-{first}.ledger", create=True).open_account("hr", 2)
                    state = open_plain_state(Path(folder) / f"plain-{first}.sqlite")
                    for i in range(200):
                        started = time.perf_counter()
                        stream.tick()
                        ticks.append(time.perf_counter() - started)
                        writes.append(time_write(plain, i))
                        marks.append(time_commit(state, i))
                    here, own, mark = median(ticks), median(writes), median(marks)
                    is_met = "yes" if 1e3 * (here - own) <= GOAL_MS else "no"
                    section.add(
                        f"{'Gaussian' if currency == 'zcdp' else 'Laplace'}, {'memory' if place else 'disk'}",
                        f"{first} to {first + 199}", f"{1e3 * here:.2f} ms", f"{1e3 * own:.2f} ms",
                        f"{1e3 * (here - own):.2f} ms", f"≤ {GOAL_MS} ms: {is_met}",
                        f"{1e3 * mark:.2f} ms",
                    )  # fmt: skip
    return section


def time_write(account: LedgerAccount, i: int) -> float:
    """The ledger's own write: a debit that costs nothing, and its answer."""
    started = time.perf_counter()
    receipt = account.reserve(NO_EVENT, measurement=f"plain {i}", id=f"plain {i}", shared=False)
    account.record(receipt, b'{"measured":[[123456]],"step":1}')  # type: ignore[arg-type]
    return time.perf_counter() - started


def open_plain_state(path: Path) -> sqlite3.Connection:
    """A database that commits as the owner's state does."""
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in (
        "PRAGMA journal_mode=WAL",
        "PRAGMA synchronous=FULL",
        "CREATE TABLE steps (step INTEGER, counts TEXT)",
    ):
        connection.execute(statement)
    return connection


def time_commit(connection: sqlite3.Connection, i: int) -> float:
    """One commit of one row."""
    started = time.perf_counter()
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO steps VALUES (?, ?)", (i, "[123]"))
    connection.execute("COMMIT")
    return time.perf_counter() - started


SECTIONS = [measure_errors, measure_ticks]

if __name__ == "__main__":
    for make in SECTIONS:
        print(make().markdown())
