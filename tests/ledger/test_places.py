"""Odd places: links, folders, foreign files, read-only disks, older and newer schemas, clocks that jump."""

import ast
import os
import sqlite3
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import discreet.ledger
from discreet.accounting.currencies import Pure
from discreet.errors import BadParameter, BudgetExceeded, LedgerCorrupted, LedgerUnavailable
from discreet.events import GaussianEvent, compose, repeat
from discreet.ledger import open_ledger
from discreet.ledger.check import check_ledger
from discreet.ledger.sql_store import LATEST_VERSION
from discreet.ledger.store import CachedAnswer
from discreet.query.answer import Receipt
from discreet.units import to_sensitivity
from tests.ledger.histories import THIRD, ask, small


@pytest.mark.parametrize("nowhere", ["", ":memory:"])
def test_a_ledger_in_memory_is_none(nowhere: str) -> None:
    with pytest.raises(BadParameter, match="ends with the process"):
        open_ledger(nowhere, create=True)


def test_a_ledger_that_is_not_there_is_not_made_by_looking(folder: Path) -> None:
    with pytest.raises(LedgerUnavailable, match="there is no ledger here"):
        open_ledger(folder / "l")
    assert not (folder / "l").exists()
    (folder / "empty").touch()
    with pytest.raises(LedgerUnavailable, match="there is no ledger here"):
        open_ledger(folder / "empty")


def test_foreign_files_and_folders(folder: Path) -> None:
    (folder / "text").write_text("no ledger at all, but long enough to be read as one\n" * 100)
    with pytest.raises(LedgerCorrupted, match="not a database"):
        open_ledger(folder / "text", create=True)
    with pytest.raises(LedgerUnavailable):
        open_ledger(folder, create=True)
    with pytest.raises(LedgerUnavailable):
        open_ledger(folder / "no folder" / "l", create=True)
    sqlite3.connect(folder / "other").execute("CREATE TABLE t (a)").connection.close()
    with pytest.raises(LedgerUnavailable, match="there is no ledger here"):
        open_ledger(folder / "other")


def test_a_link_leads_to_the_ledger_itself(folder: Path) -> None:
    (folder / "real").mkdir()
    (folder / "link").symlink_to(folder / "real" / "l")
    small(folder / "link")
    ask(open_ledger(folder / "real" / "l"), 7)
    assert check_ledger(open_ledger(folder / "link")).accounts[1].debits == 4
    assert not list(folder.glob("link?*"))


@pytest.mark.parametrize("replace", [True, False])
def test_a_file_that_is_taken_away_is_not_written_to(folder: Path, replace: bool) -> None:
    """Debits into a file that has no name any more would be lost with the process."""
    ledger = small(folder / "l")
    os.rename(folder / "l", folder / "elsewhere")
    if replace:
        small(folder / "other").close()
        os.rename(folder / "other", folder / "l")
    with pytest.raises(LedgerUnavailable, match="moved, removed or replaced"):
        ask(ledger, 50)


def test_a_disk_that_may_not_be_written(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> None:
    """As somebody without rights: an administrator may write anywhere."""
    script = """
import os, sys
from fractions import Fraction
from discreet.ledger import open_ledger
from discreet.ledger.sql_store import LATEST_VERSION
from discreet.ledger.sqlite import SqliteStore
from discreet.ledger.chain import Ledger
from discreet.events import Claim, compose
from discreet.errors import LedgerUnavailable
import discreet.accounting.curve
loss = compose(Claim(Fraction(1, 3), Fraction(0)))
if os.geteuid() == 0:
    os.setgid(65534), os.setuid(65534)
try:
    open_ledger(sys.argv[1]).get_account("hr").reserve(loss, measurement="m", id="q")
except LedgerUnavailable as failed:
    print(failed)
"""
    small(folder / "l").close()
    folder.chmod(0o555)
    (folder / "l").chmod(0o444)
    try:
        done = subprocess.run([sys.executable, "-c", script, str(folder / "l")], capture_output=True, text=True, check=False)
    finally:
        folder.chmod(0o755)
    assert "nothing is shown" in done.stdout, done.stderr
    assert "then ask again with the same id" in done.stdout


def test_an_older_schema_is_brought_up_to_date(place: str) -> None:
    ledger = small(place)
    with ledger.store.write_transaction() as pages:
        pages.run("ALTER TABLE discreet_accounts DROP COLUMN debits", ())
        pages.run("ALTER TABLE discreet_accounts DROP COLUMN whose", ())
        pages.run("DROP TABLE discreet_facts", ())
        pages.run("DROP TABLE discreet_sources", ())
        pages.run("DELETE FROM discreet_entries WHERE kind IN ('failure', 'lift')", ())  # the last ones
        pages.run("UPDATE discreet_schema SET version = 1", ())
    ledger.close()
    upgraded = open_ledger(place)
    assert check_ledger(upgraded).is_valid
    assert [account.debits for account in upgraded.list_accounts()] == [0, 3]
    ask(upgraded, 60)


def test_a_newer_schema_is_refused_also_by_those_who_are_at_work(place: str) -> None:
    ledger = small(place)
    with ledger.store.write_transaction() as pages:
        pages.run(f"UPDATE discreet_schema SET version = {LATEST_VERSION + 1}", ())
    with pytest.raises(LedgerUnavailable, match="Use a newer discreet"):
        ask(ledger, 60)
    ledger.close()
    with pytest.raises(LedgerUnavailable, match="Use a newer discreet"):
        open_ledger(place)


def history(place: Path) -> list[bytes]:
    ledger = small(place)
    ask(ledger, 5)
    with ledger.store.read_transaction() as pages:
        return [row.body for row in pages.iter_entries()]


def test_clocks_that_jump_change_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steady = history(folder / "steady")
    jumps = iter([1e9, 0.0, 4e9, -1e6] * 1000)
    for clock in ("time", "monotonic", "perf_counter"):
        monkeypatch.setattr(time, clock, lambda: next(jumps))
    assert history(folder / "jumping") == steady


def test_no_clock_is_read_anywhere_in_the_ledger() -> None:
    for file in Path(discreet.ledger.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            named = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
            if named and node.value.id in ("time", "datetime"):  # type: ignore[attr-defined]
                assert node.attr == "sleep", file  # type: ignore[attr-defined]
            assert not (isinstance(node, ast.ImportFrom) and node.module in ("time", "datetime")), file


def test_an_id_belongs_to_one_measurement(place: str) -> None:
    ledger = small(place)
    hr = ledger.get_account("hr")
    with pytest.raises(BadParameter, match="belongs to another measurement"):
        hr.reserve(THIRD, measurement="another", id="q0")
    with pytest.raises(BadParameter, match="belongs to another measurement"):
        hr.reserve(compose(THIRD, THIRD), measurement="m0", id="q0")
    assert isinstance(ledger.get_account("all").reserve(THIRD, measurement="x", id="q0"), object)  # ids are per account
    assert check_ledger(ledger).is_valid


def test_the_same_question_is_free_and_a_fresh_one_is_not(place: str) -> None:
    ledger = small(place)
    hr = ledger.get_account("hr")
    before = hr.budget.spent
    again = hr.reserve(THIRD, measurement="m1")
    assert isinstance(again, CachedAnswer)
    assert (again.id, again.answer) == ("q1", b"about 40")
    assert hr.budget.spent == before
    fresh: Any = hr.reserve(THIRD, measurement="m1", fresh=True)
    assert hr.budget.spent == before + Fraction(1, 3)
    assert hr.record(fresh, b"about 41") == b"about 41"
    assert hr.reserve(THIRD, measurement="m1") == again  # the first one, for ever


def test_seeded_noise_is_refused_before_it_is_paid_for(place: str) -> None:
    ledger = small(place)
    hr = ledger.get_account("hr")
    before = hr.budget
    with pytest.raises(BadParameter, match="seed"):
        hr.reserve(THIRD, measurement="t", tainted=True)
    assert hr.budget == before


def test_a_plan_in_a_pure_account_is_one_entry_at_its_certified_point(place: str) -> None:
    ledger = open_ledger(place, create=True)
    account, at = ledger.open_account("hr", 3, 1e-6, Pure()), Fraction(1, 10**7)
    plan = repeat(GaussianEvent(Fraction(40), to_sensitivity(1)), 10)
    with pytest.raises(BudgetExceeded):
        account.reserve(plan, measurement="m")
    assert isinstance(account.reserve(plan, measurement="m", certified_delta=at), Receipt)
    assert account.budget.delta_spent == at
    assert check_ledger(ledger).is_valid


def test_a_refusal_says_what_would_fit_and_leaves_no_trace(place: str) -> None:
    ledger = small(place)
    before = check_ledger(ledger)
    with pytest.raises(BudgetExceeded, match=r"epsilon=4\.0 would fit"):
        ledger.get_account("hr").reserve(repeat(THIRD, 100), measurement="too much", id="big")
    assert check_ledger(ledger) == before


def test_accounts_are_opened_once_and_found_by_name(place: str) -> None:
    ledger = small(place)
    with pytest.raises(BadParameter, match="for life"):
        ledger.open_account("hr", 100)
    with pytest.raises(BadParameter, match="The accounts are: 'all', 'hr'"):
        ledger.get_account("nobody")
    with pytest.raises(BadParameter, match="Name one of: 'all', 'hr'"):
        ledger.get_account()
    with pytest.raises(BadParameter, match="not in"):
        ledger.open_account("new", 1, parent="nobody")
    with pytest.raises(LedgerUnavailable, match="is no debit"):
        ledger.get_account("all").record(ask(ledger, 9), b"somebody else's")
    assert check_ledger(ledger).is_valid


def test_a_server_that_is_not_there(folder: Path) -> None:
    with pytest.raises(LedgerUnavailable, match="nothing is shown") as failed:
        open_ledger(f"postgresql://me:secret@/nothing?host={folder}")
    assert "secret" not in str(failed.value)
    with pytest.raises(BadParameter, match="not an address"):
        open_ledger("postgresql://host/db?nonsense=1")


def test_a_database_without_a_ledger(database: str) -> None:
    with pytest.raises(LedgerUnavailable, match="there is no ledger here"):
        open_ledger(database)
