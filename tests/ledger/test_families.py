"""Families: accounts under one root share what any of them paid for, and nothing else.

Every law runs over all stores. What is guaranteed is the root's budget over all that the family was shown, so a measurement
is debited once in a family, one debit has one answer, and accounts without a common root share nothing.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from discreet.accounting.currencies import Receipt
from discreet.errors import BadParameter, BudgetExceeded, LedgerCorrupted, LedgerUnavailable
from discreet.events import Claim, compose
from discreet.ledger import open_ledger
from discreet.ledger.account import CachedAnswer
from discreet.ledger.chain import Ledger, LedgerAccount
from discreet.ledger.check import check_ledger
from discreet.ledger.entries import AccountOpened, AnswerRecorded, encode
from discreet.ledger.store import read_account
from tests.support.small_ledger import THIRD, debit_and_record, make_small_ledger

ROOT = Path(__file__).parent.parent.parent


def open_family(location: str) -> Ledger:
    """A root with two children, one of which has a child, and a stranger without a parent."""
    ledger = open_ledger(location, create=True)
    ledger.open_account("all", 3)
    ledger.open_account("ada", 2, parent="all")
    ledger.open_account("bob", 1, parent="all")
    ledger.open_account("bob/token", 1, parent="bob")
    ledger.open_account("stranger", 2)
    return ledger


def spent(ledger: Ledger) -> dict[str, Fraction]:
    return {account.name: account.budget.spent for account in ledger.list_accounts() if account.budget.spent}


@pytest.mark.parametrize("asker", ["all", "ada", "bob", "bob/token"])
@pytest.mark.parametrize("payer", ["all", "ada", "bob/token"])
def test_what_one_account_paid_for_is_free_for_its_family(location: str, payer: str, asker: str) -> None:
    ledger = open_family(location)
    paid = debit_and_record(ledger, 1, b"about 40", payer)
    before = spent(ledger)
    account = ledger.get_account(asker)
    assert account.is_paid(THIRD, measurement="m1")
    found = account.reserve(THIRD, measurement="m1", id="mine")
    assert found == CachedAnswer(paid.entry, "q1" if asker == payer else "", b"about 40")
    assert spent(ledger) == before
    assert not account.has_debit("mine"), "what was free leaves its id free"
    assert check_ledger(ledger).is_valid


def test_a_stranger_pays_itself(location: str) -> None:
    ledger = open_family(location)
    debit_and_record(ledger, 1, b"about 40", "ada")
    stranger = ledger.get_account("stranger")
    assert not stranger.is_paid(THIRD, measurement="m1")
    assert isinstance(stranger.reserve(THIRD, measurement="m1"), Receipt)
    assert stranger.budget.spent == Fraction(1, 3)
    assert check_ledger(ledger).is_valid


def test_other_events_and_fresh_and_unshared_measurements_are_charged(location: str) -> None:
    ledger = open_family(location)
    debit_and_record(ledger, 1, b"about 40", "ada")
    bob, sixth = ledger.get_account("bob"), compose(Claim(Fraction(1, 6), Fraction(0)))
    own = bob.reserve(sixth, measurement="m1", id="own")
    assert isinstance(own, Receipt)
    assert bob.budget.spent == Fraction(1, 6)
    again = bob.reserve(sixth, measurement="m1")
    assert isinstance(again, Receipt)
    assert (again.entry, again.paid_by, bob.budget.spent) == (own.entry, None, Fraction(1, 6)), "its own debit is continued"
    assert not bob.is_paid(THIRD, measurement="m1", shared=False)
    assert isinstance(bob.reserve(THIRD, measurement="m1", fresh=True), Receipt)
    assert bob.budget.spent == Fraction(1, 2)
    assert isinstance(ledger.get_account("all").reserve(THIRD, measurement="m1", shared=False), Receipt)
    assert check_ledger(ledger).is_valid


def test_a_debit_without_an_answer_is_continued_by_the_family_and_answered_once(location: str) -> None:
    ledger = open_family(location)
    ada, bob = ledger.get_account("ada"), ledger.get_account("bob")
    first, second = ada.reserve(THIRD, measurement="m", id="x"), bob.reserve(THIRD, measurement="m", id="y")
    assert isinstance(first, Receipt)
    assert isinstance(second, Receipt)
    assert (second.entry, second.paid_by, second.remaining) == (first.entry, "ada", bob.budget.limit)
    assert spent(ledger) == {"all": Fraction(1, 3), "ada": Fraction(1, 3)}, "the root paid once"
    assert bob.record(second, b"of bob") == b"of bob"
    assert ada.record(first, b"of ada") == b"of bob", "the first to record wins, and both show its answer"
    [recorded] = [entry for entry in ledger.iter_entries() if isinstance(entry, AnswerRecorded)]
    assert (recorded.account, recorded.debit) == ("ada", first.entry), "the answer is that of the account that paid"
    assert ada.reserve(THIRD, measurement="m", id="x") == CachedAnswer(first.entry, "x", b"of bob")
    assert check_ledger(ledger).unanswered == ()
    assert check_ledger(ledger).is_valid


def test_an_answer_comes_before_a_debit_without_one_and_the_own_before_the_familys(location: str) -> None:
    ledger = open_family(location)
    ada, bob = ledger.get_account("ada"), ledger.get_account("bob")
    first = ada.reserve(THIRD, measurement="m")
    own = bob.reserve(THIRD, measurement="m", fresh=True)
    assert bob.reserve(THIRD, measurement="m") == own
    ada.record(first, b"40")  # type: ignore[arg-type]
    assert bob.reserve(THIRD, measurement="m") == CachedAnswer(first.entry, "", b"40")
    bob.record(own, b"41")  # type: ignore[arg-type]
    found = bob.reserve(THIRD, measurement="m")
    assert isinstance(found, CachedAnswer)
    assert (found.entry, found.answer) == (own.entry, b"41"), (
        "what an account was shown for its own debit, it is shown again"
    )
    assert ledger.get_account("all").reserve(THIRD, measurement="m") == CachedAnswer(first.entry, "", b"40")
    assert check_ledger(ledger).is_valid


def test_a_receipt_of_another_family_records_nothing(location: str) -> None:
    ledger = open_family(location)
    receipt = ledger.get_account("ada").reserve(THIRD, measurement="m")
    assert isinstance(receipt, Receipt)
    stolen = Receipt(receipt.entry, receipt.event, paid_by="ada")
    for account in (receipt, stolen):
        with pytest.raises(LedgerUnavailable, match="is no debit of account"):
            ledger.get_account("stranger").record(account, b"forged")
    with pytest.raises(LedgerUnavailable, match="is no debit of account 'bob'"):
        ledger.get_account("ada").record(Receipt(receipt.entry, receipt.event, paid_by="bob"), b"forged")
    assert len(check_ledger(ledger).unanswered) == 1


def test_ids_stay_with_their_account(location: str) -> None:
    ledger = open_family(location)
    ada, bob = ledger.get_account("ada"), ledger.get_account("bob")
    ada.reserve(THIRD, measurement="m", id="x")
    assert not bob.has_debit("x")
    assert isinstance(bob.reserve(THIRD, measurement="another", id="x"), Receipt)
    with pytest.raises(BadParameter, match="belongs to another measurement"):
        ada.reserve(THIRD, measurement="another", id="x")


def test_an_account_without_budget_is_shown_what_its_family_paid_for_and_nothing_else(location: str) -> None:
    ledger = open_family(location)
    bob = ledger.get_account("bob")
    bob.reserve(compose(Claim(Fraction(1), Fraction(0))), measurement="all of it")
    debit_and_record(ledger, 1, b"about 40", "ada")
    assert isinstance(bob.reserve(THIRD, measurement="m1"), CachedAnswer)
    with pytest.raises(BudgetExceeded):
        bob.reserve(THIRD, measurement="m2")


# Rivals.


@pytest.mark.parametrize(("processes", "measurements"), [(8, 60)])
def test_rivals_of_a_family_pay_for_each_measurement_once(location: str, processes: int, measurements: int) -> None:
    found = _race(location, processes, measurements)
    assert found["problem"] is None
    assert found["debits"] == measurements, "each was debited once, whoever asked first"
    assert found["spent"]["all"] == found["cost"]
    assert found["answers"] == [1] * measurements, "every process was shown the same answer"


def test_a_mutant_that_looks_in_its_own_account_only_overspends_its_promise(folder: Path) -> None:
    found = _race(str(folder / "l"), 4, 12, "--mutant")
    assert found["debits"] > 12
    assert max(found["answers"]) > 1


def _race(location: str, processes: int, measurements: int, *more: str) -> Any:
    command = [sys.executable, "-m", "tests.support.family_rivals", location, str(processes), str(measurements), *more]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# Mutants of the laws above.


def find_in_own_account(account: LedgerAccount) -> Any:
    return account.reserve(THIRD, measurement="m1", shared=False)


def pay_again(account: LedgerAccount) -> Any:
    return account.reserve(THIRD, measurement="m1", fresh=True)


@pytest.mark.parametrize("mutant", [find_in_own_account, pay_again])
def test_mutants_charge_the_root_twice(location: str, mutant: Callable[[LedgerAccount], Any]) -> None:
    ledger = open_family(location)
    debit_and_record(ledger, 1, b"about 40", "ada")
    before = spent(ledger)
    assert isinstance(mutant(ledger.get_account("bob")), Receipt)
    assert spent(ledger)["all"] == 2 * before["all"]


# What a store holds beside the entries.


def test_every_account_with_its_totals_as_read_one_by_one(location: str) -> None:
    ledger = open_family(location)
    debit_and_record(ledger, 1, account="bob/token")
    debit_and_record(ledger, 2, account="stranger")
    with ledger.store.read_transaction() as transaction:
        names = transaction.list_account_names()
        assert transaction.read_accounts() == tuple(read_account(transaction, name) for name in names)
        assert [transaction.read_root(name) for name in names] == ["all", "all", "all", "all", "stranger"]
        assert transaction.read_root("unknown") is None
    assert ledger.list_accounts() == check_ledger(ledger).accounts


def test_accounts_are_listed_with_a_constant_number_of_statements(sql_location: str) -> None:
    ledger = open_family(sql_location)

    def count() -> int:
        statements: list[str] = []
        with ledger.store.read_transaction() as transaction:
            run = transaction.run  # type: ignore[attr-defined]
            counting = type(transaction)(lambda sql, values: statements.append(sql) or run(sql, values), "")  # type: ignore[call-arg]
            assert counting.read_accounts() == transaction.read_accounts()
        return len(statements)

    few = count()
    for number in range(20):
        ledger.open_account(f"child {number}", 1, parent="bob")
    assert count() == few == 1
    assert len(ledger.list_accounts()) == 25


def test_a_measurement_is_found_through_an_index(folder: Path) -> None:
    ledger = open_family(str(folder / "l"))
    ledger.get_account("bob").reserve(THIRD, measurement="m")
    with ledger.store.read_transaction() as transaction:
        statements: list[tuple[str, Any]] = []
        run = transaction.run  # type: ignore[attr-defined]
        noting = type(transaction)(lambda *given: statements.append(given) or run(*given), "")  # type: ignore[call-arg]
        noting.find_debit_by_measurement("bob", "m", in_family=True)
        assert len(statements) == 2  # whether there is one at all, and which
        plans = [
            " ".join(row[-1] for row in run(f"EXPLAIN QUERY PLAN {sql}", values).fetchall()) for sql, values in statements
        ]
    assert "SEARCH discreet_entries USING COVERING INDEX discreet_by_measurement (measurement=?)" in plans[0]
    assert "SEARCH discreet_entries USING INDEX discreet_by_measurement (measurement=?)" in plans[1]
    assert not any("SCAN" in plan for plan in plans)


@pytest.mark.parametrize("root", ["stranger", ""])
def test_a_root_that_was_changed_beside_the_entries_is_found(sql_location: str, root: str) -> None:
    ledger = open_family(sql_location)
    with ledger.store.write_transaction() as transaction:
        transaction.run("UPDATE discreet_accounts SET root = ? WHERE name = 'bob'", (root,))  # type: ignore[attr-defined]
    assert check_ledger(ledger).problem == "account 'bob' is not listed under the root of its parents"


def test_an_account_whose_parent_comes_later_is_corrupt(sql_location: str) -> None:
    ledger = open_family(sql_location)
    with ledger.store.write_transaction() as transaction:
        transaction.run("DELETE FROM discreet_accounts WHERE name = 'all'", ())  # type: ignore[attr-defined]
    with pytest.raises(LedgerCorrupted, match="no parent that was opened before it"):
        ledger.list_accounts()


# Heads and identities.


def test_a_ledger_continues_its_own_heads_and_no_others(location: str, folder: Path) -> None:
    ledger = open_family(location)
    heads = [ledger.head]
    for number in range(3):
        debit_and_record(ledger, number, account="ada")
        heads.append(ledger.head)
    for number, digest in [(0, bytes(32)), *heads]:
        assert ledger.continues(number, digest)
        assert ledger.continues(number, digest.hex())
    last = heads[-1]
    foreign = open_family(str(folder / "foreign")).head
    assert foreign.number == heads[0].number
    for number, claimed in (foreign, (last.number, heads[0].hash), (last.number + 1, last.hash), (0, last.hash)):
        assert not ledger.continues(number, claimed)
    for number in (-1, 2**63, 10**30):
        assert not ledger.continues(number, last.hash)
    for text in ("", "x", last.hash.hex().upper(), last.hash.hex()[:10]):
        assert not ledger.continues(last.number, text)


def test_a_ledger_that_was_rolled_back_does_not_continue_its_head(folder: Path) -> None:
    path = folder / "l"
    ledger = open_family(str(path))
    ledger.close()
    copy = path.read_bytes()
    debit_and_record(ledger, 1, account="ada")
    later = ledger.head
    ledger.close()
    path.write_bytes(copy)
    with open_ledger(path) as restored:
        assert not restored.continues(*later)


def test_an_identity_is_random_and_in_the_first_entry_alone(location: str, folder: Path) -> None:
    empty = open_ledger(location, create=True)
    assert empty.identity is None
    ledger = make_small_ledger(location)
    assert ledger.identity == open_ledger(location).identity
    assert len(str(ledger.identity)) == 32
    assert ledger.identity != make_small_ledger(folder / "other").identity
    stated = [encode(entry).count(b'"identity"') for entry in ledger.iter_entries()]
    assert stated == [1] + [0] * (len(stated) - 1)
    assert check_ledger(ledger).is_valid


def test_an_identity_in_a_later_entry_is_found(location: str) -> None:
    ledger = make_small_ledger(location)
    with ledger.store.write_transaction() as transaction:
        head, account = transaction.read_head(), read_account(transaction, "all")
        assert account is not None
        opening = AccountOpened.of(account, head.number + 1, head.hash)
        transaction.append(_with(opening, account="new", identity="0" * 32))
    assert "states an identity" in str(check_ledger(ledger).problem)


def _with(entry: AccountOpened, **changes: Any) -> AccountOpened:
    from msgspec.structs import replace

    return replace(entry, **changes)
