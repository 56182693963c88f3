"""The tables of the two stores in SQL: an older schema is upgraded, a newer one is refused."""

import pytest

from discreet.errors import LedgerUnavailable
from discreet.ledger import open_ledger
from discreet.ledger.check import check_ledger
from discreet.ledger.sql_store import LATEST_VERSION
from tests.support.small_ledger import debit_and_record, make_small_ledger


def test_a_schema_of_version_1_is_upgraded(sql_location: str) -> None:
    ledger = make_small_ledger(sql_location)
    with ledger.store.write_transaction() as transaction:
        transaction.run("ALTER TABLE discreet_accounts DROP COLUMN debits", ())
        transaction.run("ALTER TABLE discreet_accounts DROP COLUMN whose", ())
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
