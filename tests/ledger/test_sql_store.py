"""The tables of the two stores in SQL: an older schema is upgraded, a newer one is refused.

Every later version must open the ledger of tests/support/schema3_ledger.py, upgrade it, verify all of it, and find its
recorded answers again, for free.
"""

import sqlite3
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from discreet.errors import LedgerUnavailable
from discreet.ledger import open_ledger
from discreet.ledger.check import check_ledger
from discreet.ledger.keys import load_key
from discreet.ledger.sql_store import LATEST_VERSION
from discreet.ledger.verify import find_divergence, verify
from tests.support.certificates import list_false_claims
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
