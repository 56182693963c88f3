"""Conformance: `transact` returns what is durable, and undoes what fails, in every store."""

from fractions import Fraction

import pytest

from discreet import codec
from discreet.accounting.currencies import Receipt
from discreet.errors import BudgetExceeded
from discreet.events import Claim, compose
from discreet.ledger import open_ledger
from discreet.ledger.check import check_ledger
from discreet.ledger.entries import Debit, FailureRecorded
from discreet.ledger.quarantine import FailureCounts, FailureKind
from discreet.ledger.store import Transaction, append_entry, decode_stored
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


MANY = 39  # more than one statement writes


def test_a_body_finds_the_debits_that_it_appended(location: str) -> None:
    """A store may write the debits of a batch together, later."""
    ledger = make_small_ledger(location)
    account, event = ledger.get_account("hr"), compose(Claim(Fraction(1, 1000), Fraction(0)))
    encoded = codec.encode(event)
    cost = account.initial_state.compute_charge(event)

    def debit_and_look(transaction: Transaction) -> list[int]:
        begun, wrong = transaction.read_head().number, list[int]()
        for i in range(MANY):
            receipt = account._debit(transaction, f"id {i}", f"measured {i}", event, encoded, cost, Fraction(0), "")
            head = transaction.read_head()
            found = [
                lambda i=i: transaction.find_debit_by_id("hr", f"id {i}"),
                lambda i=i: transaction.find_debit_by_measurement("hr", f"measured {i}"),
                lambda i=i: transaction.find_debit_by_measurement("all", f"measured {i}", in_family=True),
                lambda head=head: transaction.find_entry(head.number),
                lambda head=head: transaction.find_hash(head.number) == head.hash and transaction.find_entry(head.number),
                lambda: decode_stored(transaction, [*transaction.iter_entries()][-1]),
                lambda begun=begun: decode_stored(transaction, [*transaction.iter_entries("debit", after=begun)][-1]),
                lambda: None,  # so several are waiting to be written
            ]
            debit = found[i % len(found)]()
            if debit is not None and (
                not isinstance(debit, Debit) or debit.id != f"id {i}" or debit.number != receipt.entry
            ):
                wrong.append(i)
            if debit is None and i % len(found) != len(found) - 1:
                wrong.append(i)
        return wrong

    assert ledger.store.transact(debit_and_look) == []
    assert check_ledger(open_ledger(location)).is_valid

    def debit_many(transaction: Transaction) -> None:
        for i in range(MANY):
            account._debit(transaction, f"later {i}", f"later {i}", event, encoded, cost, Fraction(0), "")

    ledger.store.transact(debit_many)
    report = check_ledger(open_ledger(location))
    assert report.is_valid
    assert report.accounts[1].debits == 3 + 2 * MANY


def test_children_that_take_turns_never_overdraw_their_parent(location: str) -> None:
    """A store may remember accounts with their parents: each child must see what the other spent."""
    ledger = open_ledger(location, create=True)
    root = ledger.open_account("all", 1)
    children = [ledger.open_account(name, 1, parent="all") for name in ("a", "b")]
    children.append(ledger.get_account("a"))  # the same one, opened twice
    tenth = compose(Claim(Fraction(1, 10), Fraction(0)))
    for i in range(10):
        receipt = children[i % 3].reserve(tenth, measurement=f"m{i}")
        assert isinstance(receipt, Receipt)
        before = sum(each % 3 % 2 == i % 3 % 2 for each in range(i))  # the first and the third are one account
        assert receipt.remaining == 1 - Fraction(before + 1, 10)
        assert root.budget.spent == Fraction(i + 1, 10)
    for child in children:
        with pytest.raises(BudgetExceeded):
            child.reserve(tenth, measurement="one more")
    assert check_ledger(open_ledger(location)).is_valid
