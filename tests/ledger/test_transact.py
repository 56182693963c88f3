"""Conformance: `transact` returns what is durable, and undoes what fails, in every store."""

import pytest

from discreet.ledger import open_ledger
from discreet.ledger.check import check_ledger
from discreet.ledger.entries import FailureRecorded
from discreet.ledger.quarantine import FailureCounts, FailureKind
from discreet.ledger.store import Transaction, append_entry
from tests.support.small_ledger import debit_and_record, make_small_ledger


def append_failure(transaction: Transaction) -> int:
    head = transaction.read_head()
    entry = FailureRecorded(
        number=head.number + 1, previous=head.hash.hex(), source="people.csv", failure=FailureKind.RESOURCE
    )
    append_entry(transaction, entry)
    return entry.number


def append_and_fail(transaction: Transaction) -> int:
    raise KeyError(append_failure(transaction))


def test_what_a_body_returns_is_there_for_others(location: str) -> None:
    ledger = make_small_ledger(location)
    before = ledger.head.number
    for i in (1, 2):
        assert ledger.store.transact(append_failure) == before + i
        other = open_ledger(location)
        assert other.head.number == before + i
        assert check_ledger(other).is_valid
        with other.store.read_transaction() as transaction:
            assert transaction.read_failures("people.csv") == FailureCounts(resource=i)


def test_a_body_that_fails_leaves_nothing_and_raises_its_own_error(location: str) -> None:
    ledger = make_small_ledger(location)
    before = check_ledger(ledger)
    with pytest.raises(KeyError, match=str(before.entries + 1)):
        ledger.store.transact(append_and_fail)
    assert check_ledger(ledger) == check_ledger(open_ledger(location)) == before
    debit_and_record(ledger, 9)
    assert check_ledger(ledger).is_valid
