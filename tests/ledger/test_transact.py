"""Conformance: `transact` returns what is durable, and undoes what fails, in every store."""

from fractions import Fraction

import pytest

from discreet import codec
from discreet.events import Claim, compose
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


def test_a_body_sees_the_totals_and_events_that_it_wrote(location: str) -> None:
    ledger = make_small_ledger(location)
    account, event = ledger.get_account("hr"), compose(Claim(Fraction(1, 50), Fraction(0)))
    encoded = codec.encode(event)

    def debit_three_times(transaction: Transaction) -> list[tuple[object, ...]]:
        before = transaction.read_event_counts("hr").get(encoded, 0)
        seen = list[tuple[object, ...]]()
        for i in range(3):
            cost = account.initial_state.compute_charge(event)
            account._debit(transaction, f"same {i}", f"same {i}", event, encoded, cost, Fraction(0), "")
            times = transaction.read_event_counts("hr")[encoded] - before if i % 2 else 0
            [hr] = [each for each in transaction.read_accounts() if each.name == "hr"]
            times = times or transaction.read_event_counts("hr")[encoded] - before
            seen.append((times, hr == transaction.read_totals(account.initial_state), hr.budget.spent, hr.debits))
        return seen

    begun = account.state
    expected = [(i, True, begun.budget.spent + Fraction(i, 50), begun.debits + i) for i in (1, 2, 3)]
    assert ledger.store.transact(debit_three_times) == expected
    assert check_ledger(open_ledger(location)).is_valid


def test_totals_that_a_failing_body_saved_are_undone(location: str) -> None:
    ledger = make_small_ledger(location)
    account, before = ledger.get_account("hr"), check_ledger(ledger)

    def save_and_fail(transaction: Transaction) -> None:
        transaction.save_totals(transaction.read_totals(account.initial_state).charge_cost(Fraction(1, 50), Fraction(0)))
        raise KeyError("saved")

    debit_and_record(ledger, 8)  # a store may remember what it wrote
    begun = check_ledger(ledger)
    assert begun != before
    with pytest.raises(KeyError, match="saved"):
        ledger.store.transact(save_and_fail)
    assert check_ledger(ledger) == check_ledger(open_ledger(location)) == begun
    debit_and_record(ledger, 9)
    assert check_ledger(ledger).is_valid
