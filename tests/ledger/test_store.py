"""Conformance: what every store promises, checked on each of them, one without SQL included.

A new store joins by its parameter in the fixture `location`; tests/ledger/test_chain.py then runs on it, too.
"""

import json
import subprocess
import sys
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest

from discreet import codec
from discreet.errors import BadParameter, LedgerCorrupted, LedgerUnavailable
from discreet.ledger import open_ledger, register_store
from discreet.ledger.account import AccountState
from discreet.ledger.check import check_ledger
from discreet.ledger.entries import GENESIS, AccountOpened, AnswerRecorded, Debit, EntryKeys, compute_hash, decode, encode
from discreet.ledger.quarantine import FailureCounts
from discreet.ledger.store import Head, Store, Transaction, decode_stored, read_account
from tests.support.jsonl_store import SCHEME, JsonLinesStore
from tests.support.rounds import at_night
from tests.support.small_ledger import THIRD, debit_and_record, make_small_ledger

ROOT = Path(__file__).parent.parent.parent


def open_empty_store(location: str) -> Store:
    return open_ledger(location, create=True).store


def append_account(transaction: Transaction, name: str, parent: AccountState | None = None) -> AccountState:
    head, account = transaction.read_head(), AccountState.open(name, 5, parent=parent)
    transaction.append(AccountOpened.of(account, head.number + 1, head.hash))
    return account


def test_an_empty_ledger(location: str) -> None:
    with open_empty_store(location).read_transaction() as transaction:
        assert transaction.read_head() == Head(0, GENESIS)
        assert list(transaction.iter_entries()) == []
        assert transaction.list_account_names() == ()
        assert transaction.list_failures() == {}
        assert transaction.read_opening("hr") is read_account(transaction, "hr") is None
        assert transaction.read_event_counts("hr") == {}
        assert transaction.read_failures("people.csv") == FailureCounts()


def test_a_ledger_that_is_missing_is_not_made_unless_asked_for(location: str) -> None:
    with pytest.raises(LedgerUnavailable, match="there is no ledger here"):
        open_ledger(location)
    open_ledger(location, create=True).close()
    open_ledger(location).close()


@pytest.mark.parametrize("given", [None, 5, b"hr.ledger"])
def test_only_a_path_or_an_address_is_a_location(given: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadParameter, match="not a path or an address"):
        open_ledger(given, create=True)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_what_is_committed_is_there_for_others_and_after_closing(location: str) -> None:
    one, other = open_empty_store(location), open_ledger(location).store
    with one.write_transaction() as transaction:
        append_account(transaction, "hr")
        inside = transaction.read_head()
    one.close()
    for store in (one, other, open_ledger(location).store):
        with store.read_transaction() as transaction:
            assert transaction.read_head() == inside
            assert transaction.list_account_names() == ("hr",)


def test_a_transaction_that_is_left_by_an_error_is_undone(location: str) -> None:
    ledger = make_small_ledger(location)
    before = check_ledger(ledger)

    class Stop(Exception):
        pass

    def write_and_stop() -> None:
        with ledger.store.write_transaction() as transaction:
            account = read_account(transaction, "hr")
            assert account is not None
            append_account(transaction, "new")
            transaction.save_totals(account.charge(THIRD))
            raise Stop

    with pytest.raises(Stop):
        write_and_stop()
    assert check_ledger(ledger) == check_ledger(open_ledger(location)) == before
    debit_and_record(ledger, 9)
    assert check_ledger(ledger).is_valid


def test_entries_are_found_by_number_in_order_and_by_kind(location: str) -> None:
    with make_small_ledger(location).store.read_transaction() as transaction:
        stored = list(transaction.iter_entries())
        assert [each.number for each in stored] == list(range(1, 11))
        for each in stored:
            entry = decode_stored(transaction, each)
            assert transaction.find_hash(each.number) == each.hash == compute_hash(each.body)
            assert encode(entry) == each.body
            found = transaction.find_entry(each.number)
            assert found is not None
            assert encode(found) == each.body
            assert each.keys in (None, EntryKeys.of(entry))
        assert transaction.read_head() == Head(10, stored[-1].hash)
        kinds = Counter(EntryKeys.of(decode(each.body)).kind for each in stored)
        assert kinds == {"open": 2, "debit": 3, "answer": 2, "failure": 2, "lift": 1}
        for kind in (*kinds, "rotate"):
            expected = [each for each in stored if EntryKeys.of(decode(each.body)).kind == kind]
            assert list(transaction.iter_entries(kind)) == expected


@pytest.mark.parametrize("number", [0, -1, 11, 2**63 - 1, 2**63, -(2**63), 10**30])
def test_any_integer_may_be_looked_for(location: str, number: int) -> None:
    with make_small_ledger(location).store.read_transaction() as transaction:
        assert transaction.find_entry(number) is None
        assert transaction.find_hash(number) is None


def test_debits_are_found_by_id_and_by_measurement(location: str) -> None:
    ledger = make_small_ledger(location)
    hr = ledger.get_account("hr")
    first, second = (hr.reserve(THIRD, measurement="twice", id=id, fresh=True) for id in ("first", "second"))
    with ledger.store.read_transaction() as transaction:
        found = transaction.find_debit_by_id("hr", "q1")
        assert isinstance(found, Debit)
        assert (found.id, found.measurement, bytes(found.encoded_event)) == ("q1", "m1", codec.encode(THIRD))
        assert transaction.find_answer(found.number) == b"about 40"
        assert transaction.find_debit_by_id("all", "q1") is transaction.find_debit_by_id("hr", "q7") is None
        assert transaction.find_debit_by_measurement("all", "m1") is None
        earliest = transaction.find_debit_by_measurement("hr", "twice")
        assert earliest is not None
        assert (earliest.number, transaction.find_answer(earliest.number)) == (first.entry, None)
    hr.record(second, b"41")  # type: ignore[arg-type]
    with ledger.store.read_transaction() as transaction:
        answered = transaction.find_debit_by_measurement("hr", "twice")
        assert answered is not None
        assert answered.number == second.entry


def test_what_follows_from_an_entry_is_kept_with_it(location: str) -> None:
    ledger = make_small_ledger(location)
    with ledger.store.read_transaction() as transaction:
        assert transaction.list_account_names() == ("all", "hr")
        opening = transaction.read_opening("hr")
        assert opening is not None
        assert (opening.number, opening.parent) == (2, "all")
        assert transaction.read_event_counts("hr") == {codec.encode(THIRD): 3}
        assert transaction.read_event_counts("hr", 0) == transaction.read_event_counts("all") == {}
        assert transaction.read_failures("slow.csv") == FailureCounts(resource=1)
        assert transaction.list_failures() == {"slow.csv": FailureCounts(resource=1), "corrected.csv": FailureCounts()}


def test_totals_are_those_of_the_account_and_its_parents(location: str) -> None:
    store = open_empty_store(location)
    with store.write_transaction() as transaction:
        above = append_account(transaction, "all")
        hr = append_account(transaction, "hr", above)
        after = hr.charge_cost(Fraction(1, 3), Fraction(0), "id: replace one unit")
        transaction.save_totals(after)
        assert transaction.read_totals(hr) == after
    with store.read_transaction() as transaction:
        assert transaction.read_totals(hr) == read_account(transaction, "hr") == after
        assert read_account(transaction, "all") == after.parent


def test_an_account_without_the_parent_that_it_names_is_corrupt(location: str) -> None:
    store = open_empty_store(location)
    with store.write_transaction() as transaction:
        append_account(transaction, "hr", AccountState.open("never opened", 9))
        with pytest.raises(LedgerCorrupted, match="no parent that was opened before it"):
            read_account(transaction, "hr")


def test_a_reader_has_one_view(location: str) -> None:
    ledger = make_small_ledger(location)
    with open_ledger(location).store.read_transaction() as transaction:
        before = transaction.read_head()
        debit_and_record(ledger, 9)
        assert transaction.read_head() == before
        assert transaction.find_debit_by_id("hr", "q9") is None
        assert [entry.number for entry in transaction.iter_entries()] == list(range(1, before.number + 1))


def test_an_answer_is_kept_byte_for_byte(location: str) -> None:
    answer = bytes(range(256)) * 40
    ledger = make_small_ledger(location)
    receipt = debit_and_record(ledger, 9, answer)
    with open_ledger(location).store.read_transaction() as transaction:
        assert transaction.find_answer(receipt.entry) == answer
        recorded = transaction.find_entry(receipt.entry + 1)
    assert isinstance(recorded, AnswerRecorded)
    assert recorded.answer == answer


@pytest.mark.parametrize(("processes", "debits"), [(8, 2_000), at_night(32, 10_000)])
def test_debits_of_many_rivals(sql_location: str, processes: int, debits: int) -> None:
    _race(sql_location, processes, debits)


def test_debits_of_rivals_in_a_store_without_sql(folder: Path) -> None:
    _race(f"{SCHEME}://{folder / 'l'}", 8, 120)


def _race(location: str, processes: int, debits: int) -> None:
    command = [sys.executable, "-m", "tests.support.rivals", location, str(processes), "2", str(debits)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["statuses"] == [0] * processes
    assert found["problem"] is None
    assert found["debits"] == found["entries"] == int(found["spent"].pop("all")) == debits
    assert sum(map(int, found["spent"].values())) == debits


def test_a_store_is_registered_by_its_scheme(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def open_elsewhere(location: str, create: bool) -> Store:
        return JsonLinesStore(f"{SCHEME}://{folder / location.rpartition('/')[2]}", create)

    monkeypatch.setattr("discreet.ledger._openers", {})
    register_store("Elsewhere", open_elsewhere)
    with make_small_ledger("ELSEWHERE://host/l") as ledger:
        assert isinstance(ledger.store, JsonLinesStore)
        assert check_ledger(ledger).is_valid


def test_a_scheme_without_a_store_is_refused_and_no_password_is_shown() -> None:
    with pytest.raises(BadParameter, match=r"mysql://…: no store has this scheme\. Name a file, or one of:") as refused:
        open_ledger("mysql://me:secret@host/db", create=True)
    assert "postgresql://" in str(refused.value)
    assert "secret" not in str(refused.value)
