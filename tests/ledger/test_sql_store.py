"""The tables of the two stores in SQL: an older schema is upgraded, a newer one is refused.

Every later version must open the ledger of tests/support/schema3_ledger.py, upgrade it, verify all of it, and find its
recorded answers again, for free.
"""

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from discreet.errors import LedgerUnavailable
from discreet.ledger import open_ledger, postgres, sqlite
from discreet.ledger.check import check_ledger
from discreet.ledger.keys import load_key
from discreet.ledger.sql_store import LATEST_VERSION, ledger_log
from discreet.ledger.store import Store
from discreet.ledger.verify import find_divergence, verify
from tests.support.certificates import list_false_claims
from tests.support.console import run
from tests.support.schema3_ledger import CERTIFICATES, COUNT, GOLDEN, MEAN, open_session, read_golden
from tests.support.small_ledger import debit_and_record, make_small_ledger


def test_a_schema_of_version_1_is_upgraded(sql_location: str) -> None:
    ledger = make_small_ledger(sql_location)
    with ledger.store.write_transaction() as transaction:
        transaction.run("ALTER TABLE discreet_accounts DROP COLUMN debits", ())
        transaction.run("ALTER TABLE discreet_accounts DROP COLUMN whose", ())
        transaction.run("ALTER TABLE discreet_accounts DROP COLUMN root", ())
        transaction.run("DROP TABLE discreet_facts", ())
        transaction.run("DROP TABLE discreet_sources", ())
        transaction.run("DELETE FROM discreet_entries WHERE kind IN ('failure', 'lift')", ())  # the last ones
        transaction.run("UPDATE discreet_schema SET version = 1", ())
    ledger.close()
    upgraded = open_ledger(sql_location)
    assert check_ledger(upgraded).is_valid
    assert [account.debits for account in upgraded.list_accounts()] == [0, 3]
    debit_and_record(upgraded, 60)


def test_a_newer_schema_is_refused_also_by_a_process_that_has_it_open(sql_location: str) -> None:
    ledger = make_small_ledger(sql_location)
    with ledger.store.write_transaction() as transaction:
        transaction.run(f"UPDATE discreet_schema SET version = {LATEST_VERSION + 1}", ())
    with pytest.raises(LedgerUnavailable, match="Use a newer discreet"):
        debit_and_record(ledger, 60)
    ledger.close()
    with pytest.raises(LedgerUnavailable, match="Use a newer discreet"):
        open_ledger(sql_location)


def test_the_golden_ledger_is_of_schema_3() -> None:
    with sqlite3.connect(f"{(GOLDEN / 'schema3.ledger').as_uri()}?mode=ro&immutable=1", uri=True) as golden:
        assert golden.execute("SELECT version FROM discreet_schema").fetchone() == (3,)
    golden.close()


def test_a_ledger_of_schema_3_opens_upgrades_and_verifies(schema3_ledger: str, folder: Path) -> None:
    ledger, key = open_ledger(schema3_ledger), load_key(folder / "hr.ledger.key")
    report = check_ledger(ledger)
    assert report.is_valid, report.problem
    assert (report.entries, len(report.unanswered), report.quarantined) == (19, 2, ())
    assert find_divergence(ledger, read_golden("head"), key.public) is None
    for name in CERTIFICATES:
        verification = verify(read_golden(name), public=key.public, ledger=ledger)
        assert verification.is_valid, list_false_claims(verification)
    debit_and_record(ledger, 60)
    assert check_ledger(ledger).is_valid
    assert find_divergence(ledger, read_golden("head"), key.public) is None


def test_an_edit_of_the_older_ledger_is_found_after_the_upgrade(schema3_ledger: str) -> None:
    ledger = open_ledger(schema3_ledger)
    with ledger.store.write_transaction() as transaction:
        transaction.run("UPDATE discreet_entries SET body = hash WHERE number = 7", ())
    assert not check_ledger(ledger).is_valid


@pytest.mark.parametrize(
    ("name", "account", "more", "sql", "options"),
    [
        ("count", "hr", {}, COUNT, {"epsilon": Fraction(1, 2)}),
        ("mean", "steps", {"bounds": {"pay": "auto"}}, MEAN, {"epsilon": 1, "id": "found"}),
        ("piloted", "steps", {"bounds": {"pay": (0, 200)}}, MEAN, {"error": "20%", "pilot": Fraction(1, 2)}),
    ],
)
def test_what_was_answered_before_the_upgrade_is_free_afterwards(
    schema3_ledger: str, name: str, account: str, more: Any, sql: str, options: Any
) -> None:
    later = open_session(schema3_ledger, account, **more)
    spent = later.account.budget.spent
    answer = later.ask(sql, **options)
    assert answer.reference is not None
    assert answer.reference.record == read_golden(name)["release"]
    assert later.account.budget.spent == spent


# -- a process that waits for another one says so, and what is wrong when it gives up --------------------------------------


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
