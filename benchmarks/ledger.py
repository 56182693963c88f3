"""The ledger beside bare SQLite, and with a long history: `python benchmarks/ledger.py` prints the tables.

Durable debits are measured against the bare `INSERT` and commit of as many bytes into a table with the same pragmas, in
turns in the same run on the same disk, since only the ratio means something.
"""

import os
import sqlite3
import subprocess
import sys
import tempfile
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
from discreet.ledger.check import check_ledger  # noqa: E402
from discreet.units import to_sensitivity  # noqa: E402

EACH, TURNS = 100, 9
LONG, KINDS = 100_000, 200


def debits() -> Section:
    """Debits per second, beside bare inserts."""
    section = Section(
        "Durable debits on SQLite",
        f"One process, write-ahead log, synchronous=FULL; {TURNS} turns of {EACH} each, medians. Wanted: at least 60%.",
        ["what", "per second", "of bare"],
    )
    with tempfile.TemporaryDirectory(dir=HERE) as name:
        bare, debit = bare_inserts(Path(name)), ledger_debits(Path(name))
        debit(), bare()
        rates = [(timed(bare), timed(debit)) for _ in range(TURNS)]
    base, ours = (median(column) for column in zip(*rates, strict=True))
    section.add("bare INSERT and commit", f"{base:,.0f}", "100%")
    section.add("reserve: price, look up, debit, totals, chain", f"{ours:,.0f}", f"{ours / base:.0%}")
    return section


def bare_inserts(folder: Path) -> Callable[[], None]:
    """As few steps as a durable row can have."""
    connection = sqlite3.connect(folder / "bare", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE t (number INTEGER PRIMARY KEY, body BLOB)")
    body = os.urandom(600)

    def run() -> None:
        for _ in range(EACH):
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO t (body) VALUES (?)", (body,))
            connection.execute("COMMIT")

    return run


def ledger_debits(folder: Path) -> Callable[[], None]:
    """The real thing, each time a measurement that is not known yet."""
    account = open_ledger(folder / "ledger", create=True).open_account("hr", 50, 1e-6)
    loss = compose(GaussianEvent(Fraction(1000), to_sensitivity(1)))
    count = iter(range(1 << 30))

    def run() -> None:
        for _ in range(EACH):
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
        f"Debits of {KINDS} kinds in one SQLite file; medians of five. Wanted: opening ≤ 300 ms, `discreet budget` ≤ 1 s.",
        ["what", "milliseconds"],
    )
    with tempfile.TemporaryDirectory(dir=HERE) as name:
        place = Path(name) / "long.ledger"
        fill(place)
        section.add("open the ledger and the account, read what is left", milliseconds(lambda: left(place)))
        section.add("discreet budget within a running process", milliseconds(lambda: spending(place)))
        command = [sys.executable, "-c", "from discreet.cli import main; main()", "budget", str(place), "--json"]
        section.add(
            "discreet budget, the whole process", milliseconds(lambda: subprocess.run(command, check=True, stdout=-3))
        )
        section.add("check: every hash, price and sum again", milliseconds(lambda: whole(place), 1))
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


def milliseconds(run: Callable[[], object], times: int = 5) -> str:
    """The median of some runs."""
    took = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        took.append(1000 * (time.perf_counter() - start))
    return f"{median(took):,.0f}"


SECTIONS = [debits, history]

if __name__ == "__main__":
    for make in SECTIONS:
        print(make().markdown(), flush=True)
