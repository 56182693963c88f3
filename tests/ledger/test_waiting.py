"""A process that waits for another one says so after a second, and says what is wrong when it gives up."""

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest

from discreet import LedgerUnavailable
from discreet.ledger import open_ledger, postgres, sqlite
from discreet.ledger.store import Store
from discreet.ledger.waiting import ledger_log
from tests.support.console import run


@pytest.fixture
def store(sql_location: str) -> Store:
    ledger = open_ledger(sql_location, create=True)
    ledger.open_account("hr", epsilon=1)
    return ledger.store


@contextmanager
def held_elsewhere(location: str) -> Iterator[Event]:
    """The ledger while another writer holds it, until the event is set."""
    entered, release = Event(), Event()

    def hold() -> None:
        with open_ledger(location).store.write_transaction():
            entered.set()
            release.wait(60)

    thread = Thread(target=hold)
    thread.start()
    assert entered.wait(60)
    try:
        yield release
    finally:
        release.set()
        thread.join()


def test_a_locked_ledger_says_that_it_waits(store: Store, sql_location: str, caplog: pytest.LogCaptureFixture) -> None:
    with store.write_transaction():
        pass
    assert caplog.messages == []
    with held_elsewhere(sql_location) as release:
        ledger_log.addFilter(lambda record: bool(release.set()) or True)  # the other writer ends when this one waits
        try:
            with store.write_transaction():
                pass
        finally:
            ledger_log.filters.clear()
    assert caplog.messages == [f"waiting for another process that is writing to the ledger {store.location} …"]


def test_giving_up_is_a_clear_error(
    store: Store, sql_location: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "MAX_TRIES", 2)
    monkeypatch.setattr(postgres, "_WAIT_LONGER", "SET LOCAL lock_timeout = '1s'")
    with held_elsewhere(sql_location), pytest.raises(LedgerUnavailable, match="other processes kept it locked for"):
        store.write_transaction().__enter__()
    assert len(caplog.messages) == 1
    with store.write_transaction():  # and it can be used again
        pass


def test_the_command_line_says_it_on_stderr(tmp_path: Path) -> None:
    path = tmp_path / "hr.ledger"
    run("ledger", "open", str(path), "--account", "hr", "--epsilon", "1")
    (tmp_path / "people.csv").write_text("id\n1\n")
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    query = "SELECT COUNT(*) AS n FROM people"
    asking = subprocess.Popen(
        [sys.executable, "-c", "from discreet.cli import main; main()", "ask", str(tmp_path / "people.csv"), query, "--unit",
         "id", "--epsilon", "0.1", "--ledger", str(path)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert asking.stderr is not None
    assert asking.stderr.readline() == f"waiting for another process that is writing to the ledger {path} …\n"
    holder.execute("ROLLBACK")
    holder.close()
    _, rest = asking.communicate(timeout=60)
    assert (asking.returncode, rest) == (0, "")
