"""The ledger beside bare SQLite, and with a long history: `python benchmarks/ledger.py` prints the tables.

Durable debits are measured against the bare `INSERT` and commit of as many bytes into a table with the same pragmas, in
turns in the same run on the same disk, since only the ratio means something, and in new files, so that what one measurement
writes does not slow the next one down.
"""

import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from statistics import median

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from benchmarks.table import Section  # noqa: E402
from discreet import codec  # noqa: E402
from discreet.cli.budget import compute_spending  # noqa: E402
from discreet.events import GaussianEvent, compose  # noqa: E402
from discreet.ledger import open_ledger  # noqa: E402
from discreet.ledger.chain import Ledger  # noqa: E402
from discreet.ledger.check import check_ledger, read_checkpoint, write_checkpoint  # noqa: E402
from discreet.units import to_sensitivity  # noqa: E402

EACH, TURNS, THREADS = 100, 9, 32
LOG_COMMITS = 1000
"""After so many commits, SQLite has moved its write-ahead log into the file at least once, and writes over the log again."""
LONG, KINDS = 100_000, 200

ABOUT = (
    "One process, write-ahead log, synchronous=FULL. Bare is BEGIN IMMEDIATE, an INSERT of 600 bytes (an entry has about "
    "550) into a table without an index and with SQLite's own size of pages, 4,096 bytes, and COMMIT, by one client. "
    f"{TURNS} turns of {EACH} (by each thread); medians. A new file for every measurement, after "
)


def fresh_debits() -> Section:
    """Debits per second, beside bare inserts, in files that were just made."""
    section = Section(
        "Durable debits on SQLite",
        ABOUT + "one commit: the log of bare SQLite still grows with every commit, which a sync of the file waits for; that "
        "of the ledger is extended ahead of its commits, which is measured, too.",
        ["what", "per second", "of bare", "goal"],
    )
    return add_rates(section, 1, "≥ 70%", "≥ 300%")


def later_debits() -> Section:
    """The same in files whose logs have reached their size."""
    section = Section(
        "Durable debits on SQLite, later",
        ABOUT + f"{LOG_COMMITS:,} commits: no log grows any more.",
        ["what", "per second", "of bare", "goal"],
    )
    return add_rates(section, LOG_COMMITS, "", "")


def add_rates(section: Section, before: int, one: str, many: str) -> Section:
    """Measure each in a file of its own, after so many commits in it."""
    rates = [
        (
            measure(bare_inserts, before),
            measure(ledger_debits, before),
            THREADS * measure(ledger_debits, before, run_together),
        )
        for _ in range(TURNS)
    ]
    base, ours, together = (median(column) for column in zip(*rates, strict=True))
    section.add("bare INSERT and commit", f"{base:,.0f}", "100%", "")
    section.add("reserve: price, look up, debit, totals, chain", f"{ours:,.0f}", f"{ours / base:.0%}", one)
    section.add(f"the same by {THREADS} threads, which share commits", f"{together:,.0f}", f"{together / base:.0%}", many)
    return section


def measure(
    make: Callable[[Path], Callable[[int], None]],
    before: int,
    run: Callable[[Callable[[], None]], None] = lambda commit: commit(),
) -> float:
    """How many commits per second, in a new file, after some commits that are not counted."""
    with tempfile.TemporaryDirectory(dir=HERE) as name:
        commit = make(Path(name))
        commit(before)
        return timed(lambda: run(lambda: commit(EACH)))


def run_together(run: Callable[[], None]) -> None:
    """Run it in several threads at once."""
    threads = [threading.Thread(target=run) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def bare_inserts(folder: Path) -> Callable[[int], None]:
    """As few steps as a durable row can have."""
    connection = sqlite3.connect(folder / "bare", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE t (number INTEGER PRIMARY KEY, body BLOB)")
    body = os.urandom(600)

    def run(times: int) -> None:
        for _ in range(times):
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO t (body) VALUES (?)", (body,))
            connection.execute("COMMIT")

    return run


def ledger_debits(folder: Path) -> Callable[[int], None]:
    """The real thing, each time a measurement that is not known yet."""
    account = open_ledger(folder / "ledger", create=True).open_account("hr", 50, 1e-6)
    loss = compose(GaussianEvent(Fraction(10_000), to_sensitivity(1)))
    count = iter(range(1 << 30))

    def run(times: int) -> None:
        for _ in range(times):
            account.reserve(loss, measurement=f"measurement {next(count)}")

    return run


def timed(run: Callable[[], None]) -> float:
    """How many per second."""
    start = time.perf_counter()
    run()
    return EACH / (time.perf_counter() - start)


def history() -> Section:
    """What a long history costs."""
    section = Section(
        f"A ledger with {LONG:,} entries",
        f"Debits of {KINDS} kinds in one SQLite file; medians of five.",
        ["what", "milliseconds", "goal"],
    )
    with tempfile.TemporaryDirectory(dir=HERE) as name:
        place = Path(name) / "long.ledger"
        fill(place)
        section.add("open the ledger and the account, read what is left", milliseconds(lambda: left(place)), "≤ 300")
        section.add("discreet budget within a running process", milliseconds(lambda: spending(place)), "")
        command = [sys.executable, "-c", "from discreet.cli import main; main()", "budget", str(place), "--json"]
        process = milliseconds(lambda: subprocess.run(command, check=True, stdout=-3))
        section.add("discreet budget, the whole process", process, "≤ 1,000")
        section.add("check: every hash, price and sum again", milliseconds(lambda: whole(place), 3), "≤ 3,000")
        checked = Path(name) / "checked.json"
        with open_ledger(place) as ledger:
            report = check_ledger(ledger)
            assert report.checkpoint is not None
            write_checkpoint(report.checkpoint, checked)
            add_debits(ledger, 100)
        section.add("check of 100 more entries, from the checked head", milliseconds(lambda: resume(place, checked)), "≤ 50")
    return section


def fill(place: Path) -> None:
    """Many debits in one transaction: how they came is not what is measured."""
    ledger = open_ledger(place, create=True)
    account = ledger.open_account("hr", 50, 1e-6)
    losses = [compose(GaussianEvent(Fraction(3000 + i), to_sensitivity(1))) for i in range(KINDS)]
    charges = [(loss, codec.encode(loss), account.initial_state.compute_charge(loss)) for loss in losses]
    with ledger.store.write_transaction() as pages:
        for i in range(LONG):
            loss, facts, charge = charges[i % KINDS]
            account._debit(pages, f"q{i}", f"m{i}", loss, facts, charge, Fraction(0), "id: add or remove one unit")
    ledger.close()


def left(place: Path) -> None:
    with open_ledger(place) as ledger:
        assert ledger.get_account("hr").budget.remaining > 0


def spending(place: Path) -> None:
    with open_ledger(place) as ledger:
        assert compute_spending(ledger, ledger.get_account("hr").state).to_dict()["epsilon"]["upper"] < 1


def whole(place: Path) -> None:
    with open_ledger(place) as ledger:
        assert check_ledger(ledger).is_valid


def add_debits(ledger: Ledger, many: int) -> None:
    account, loss = ledger.get_account("hr"), compose(GaussianEvent(Fraction(3000), to_sensitivity(1)))
    for i in range(many):
        account.reserve(loss, measurement=f"later {i}")


def resume(place: Path, checked: Path) -> None:
    with open_ledger(place) as ledger:
        assert check_ledger(ledger, read_checkpoint(checked)).is_valid


def milliseconds(run: Callable[[], object], times: int = 5) -> str:
    """The median of some runs."""
    took = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        took.append(1000 * (time.perf_counter() - start))
    return f"{median(took):,.0f}"


SECTIONS = [fresh_debits, later_debits, history]

if __name__ == "__main__":
    for make in SECTIONS:
        print(make().markdown(), flush=True)
