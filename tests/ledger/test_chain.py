"""A ledger over every store: one debit per measurement, the first answer wins, no budget is overspent."""

import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet import codec
from discreet.accounting.currencies import Pure, Receipt
from discreet.errors import BadParameter, BudgetExceeded, LedgerUnavailable
from discreet.events import Claim, GaussianEvent, compose, repeat
from discreet.ledger import chain, open_ledger
from discreet.ledger.account import Account, CachedAnswer
from discreet.ledger.chain import LedgerAccount
from discreet.ledger.check import check_ledger
from discreet.ledger.entries import Debit
from discreet.ledger.memory import MemoryAccount, create_budget
from discreet.units import to_sensitivity
from tests.support.jsonl_store import SCHEME
from tests.support.ledger_locations import MEMORY
from tests.support.small_ledger import THIRD, debit_and_record, make_small_ledger

WHOLE = compose(Claim(Fraction(1), Fraction(0)))
TENTH = compose(Claim(Fraction(1, 10), Fraction(0)))


def test_an_id_belongs_to_one_measurement(location: str) -> None:
    ledger = make_small_ledger(location)
    hr = ledger.get_account("hr")
    with pytest.raises(BadParameter, match="belongs to another measurement"):
        hr.reserve(THIRD, measurement="another", id="q0")
    with pytest.raises(BadParameter, match="belongs to another measurement"):
        hr.reserve(compose(THIRD, THIRD), measurement="m0", id="q0")
    assert isinstance(ledger.get_account("all").reserve(THIRD, measurement="x", id="q0"), object)  # ids are per account
    assert check_ledger(ledger).is_valid


def test_the_same_measurement_is_free_and_a_fresh_one_is_not(location: str) -> None:
    ledger = make_small_ledger(location)
    hr = ledger.get_account("hr")
    before = hr.budget.spent
    cached = hr.reserve(THIRD, measurement="m1")
    assert isinstance(cached, CachedAnswer)
    assert (cached.id, cached.answer) == ("q1", b"about 40")
    assert hr.budget.spent == before
    fresh: Any = hr.reserve(THIRD, measurement="m1", fresh=True)
    assert hr.budget.spent == before + Fraction(1, 3)
    assert hr.record(fresh, b"about 41") == b"about 41"
    assert hr.reserve(THIRD, measurement="m1") == cached  # the first answer stays the one that is reused


def test_seeded_noise_is_refused_before_it_is_debited(location: str) -> None:
    ledger = make_small_ledger(location)
    hr = ledger.get_account("hr")
    before = hr.budget
    with pytest.raises(BadParameter, match="seed"):
        hr.reserve(THIRD, measurement="t", tainted=True)
    assert hr.budget == before


def test_a_plan_in_a_pure_account_is_one_entry_at_its_certified_point(location: str) -> None:
    ledger = open_ledger(location, create=True)
    account, delta = ledger.open_account("hr", 3, 1e-6, Pure()), Fraction(1, 10**7)
    plan = repeat(GaussianEvent(Fraction(40), to_sensitivity(1)), 10)
    with pytest.raises(BudgetExceeded):
        account.reserve(plan, measurement="m")
    assert isinstance(account.reserve(plan, measurement="m", certified_delta=delta), Receipt)
    assert account.budget.delta_spent == delta
    assert check_ledger(ledger).is_valid


def test_a_refusal_suggests_an_epsilon_that_fits_and_writes_nothing(location: str) -> None:
    ledger = make_small_ledger(location)
    before = check_ledger(ledger)
    with pytest.raises(BudgetExceeded, match=r"epsilon=4 would fit"):
        ledger.get_account("hr").reserve(repeat(THIRD, 100), measurement="too much", id="big")
    assert check_ledger(ledger) == before


def test_accounts_are_opened_once_and_found_by_name(location: str) -> None:
    ledger = make_small_ledger(location)
    with pytest.raises(BadParameter, match="Its budget cannot be changed"):
        ledger.open_account("hr", 100)
    with pytest.raises(BadParameter, match="The accounts are: 'all', 'hr'"):
        ledger.get_account("unknown")
    with pytest.raises(BadParameter, match="Name one of: 'all', 'hr'"):
        ledger.get_account()
    with pytest.raises(BadParameter, match="not in"):
        ledger.open_account("new", 1, parent="unknown")
    with pytest.raises(LedgerUnavailable, match="is no debit of account 'all'"):
        ledger.get_account("all").record(debit_and_record(ledger, 9), b"an answer of another account")
    assert check_ledger(ledger).is_valid


# Two callers at once.


def debit_in_one_transaction(account: LedgerAccount, name: str, both_read: threading.Barrier) -> None:
    both_read.wait()
    account.reserve(WHOLE, measurement=name)


def debit_in_two_transactions(account: LedgerAccount, name: str, both_read: threading.Barrier) -> None:
    """A mutant: it reads what remains in one transaction, is interrupted, and debits in another."""
    with account.store.read_transaction() as transaction:
        after = transaction.read_totals(account.initial_state).charge_cost(Fraction(1), Fraction(0))
    both_read.wait()
    with account.store.write_transaction() as transaction:
        head = transaction.read_head()
        transaction.append(
            Debit(
                number=head.number + 1, previous=head.hash.hex(), account=after.name, id=name, measurement=name,
                encoded_event=msgspec.Raw(codec.encode(WHOLE)), cost=Fraction(1), delta=Fraction(0),
                spent=after.budget.spent, delta_spent=Fraction(0),
            )
        )  # fmt: skip
        transaction.save_totals(after)


def count_debits_of_two(location: str, debit: Callable[[LedgerAccount, str, threading.Barrier], None]) -> int:
    """Let two threads debit the whole of what remains at the same moment; return how many debits there were."""
    open_ledger(location, create=True).open_account("hr", 1)
    both_read, debits = threading.Barrier(2), []

    def run(name: str) -> None:
        try:
            debit(open_ledger(location).get_account("hr"), name, both_read)
            debits.append(name)
        except BudgetExceeded:
            pass

    threads = [threading.Thread(target=run, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(debits)


def test_what_remains_is_debited_once(location: str) -> None:
    assert count_debits_of_two(location, debit_in_one_transaction) == 1
    assert check_ledger(open_ledger(location)).is_valid


def test_a_mutant_that_reads_and_debits_apart_overspends_and_check_finds_it(location: str) -> None:
    assert count_debits_of_two(location, debit_in_two_transactions) == 2
    assert "overdraws" in str(check_ledger(open_ledger(location)).problem)


def test_the_first_to_record_wins_and_both_show_its_answer(location: str) -> None:
    ledger = open_ledger(location, create=True)
    ledger.open_account("hr", 1)
    one, other = open_ledger(location).get_account("hr"), open_ledger(location).get_account("hr")
    first, second = (each.reserve(WHOLE, measurement="m", id="q") for each in (one, other))
    assert not isinstance(first, CachedAnswer)
    assert not isinstance(second, CachedAnswer)
    assert first.entry == second.entry
    assert other.record(second, b"second") == b"second"
    assert one.record(first, b"first") == b"second"
    assert one.reserve(WHOLE, measurement="m", id="q") == CachedAnswer(first.entry, "q", b"second")
    assert check_ledger(ledger).accounts[0].debits == 1


@pytest.mark.parametrize("both", [True, False])
def test_a_ledger_that_was_open_before_a_fork(folder: Path, both: bool) -> None:
    script = f"""
import os, sys
from fractions import Fraction
from discreet.ledger import open_ledger
from discreet.ledger.check import check_ledger
from discreet.events import Claim, compose
ledger = open_ledger(sys.argv[1], create=True)
account, event = ledger.open_account("hr", 1), compose(Claim(Fraction(1, 100), Fraction(0)))
child = os.fork()
if child and not {both}:
    os.waitpid(child, 0)
for i in range(30):
    account.reserve(event, measurement=f"{{child == 0}} {{i}}")
if child == 0:
    os._exit(0)
if {both}:
    os.waitpid(child, 0)
report = check_ledger(ledger)
print(report.problem, report.accounts[0].debits)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder / "f.ledger")], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["None", "60"], done.stderr


# Any interleaving of queries, retries, crashes and reopenings equals a serial history of a model of three lines.

COSTS = [Fraction(1, 3), Fraction(1, 4), Fraction(1, 7)]


@dataclass
class ModelDebit:
    id: str | None
    measurement: int
    answer: bytes | None = None


def model(history: list[ModelDebit], id: str | None, measurement: int, fresh: bool) -> ModelDebit | None:
    """The debit that `reserve` must return, a new one if there is none and its cost fits; None if it must refuse."""
    same_id = [debit for debit in history if id and debit.id == id]
    known = same_id or [debit for debit in history if debit.measurement == measurement and not fresh]
    fits = sum(COSTS[debit.measurement] for debit in history) + COSTS[measurement] <= 1
    return min(known, key=lambda debit: debit.answer is None) if known else ModelDebit(id, measurement) if fits else None


reserves = st.tuples(
    st.just("reserve"), st.sampled_from([None, "a", "b", "c"]), st.integers(0, 2), st.booleans(), st.integers(0, 1)
)
records = st.tuples(st.just("record"), st.integers(0, 5), st.integers(0, 1))
reopenings = st.tuples(st.just("reopen"), st.integers(0, 1))
histories = st.lists(st.one_of(reserves, reserves, records, reopenings), max_size=24)


class TwoHandles:
    """Two handles to one account. A crash is a receipt with which no answer is recorded."""

    def __init__(self, open_account: Callable[[], Account]) -> None:
        self.open_account, self.handles = open_account, [open_account(), open_account()]

    def reopen(self, handle: int) -> None:
        self.handles[handle] = self.open_account()

    def __getitem__(self, handle: int) -> Account:
        return self.handles[handle]


def compare_with_model(accounts: TwoHandles, operations: list[Any]) -> None:
    """Run both and assert that every result is the same."""
    history: list[ModelDebit] = []
    receipts: list[tuple[Receipt, ModelDebit]] = []
    for number, operation in enumerate(operations):
        if operation[0] == "reopen":
            accounts.reopen(operation[1])
        elif operation[0] == "record" and operation[1] < len(receipts):
            receipt, debit = receipts[operation[1]]
            debit.answer = debit.answer or str(number).encode()
            assert accounts[operation[2]].record(receipt, str(number).encode()) == debit.answer
        elif operation[0] == "reserve":
            _, id, measurement, fresh, handle = operation
            compare_reserve(accounts[handle], history, receipts, id, measurement, fresh)
        assert accounts[0].budget.spent == sum((COSTS[debit.measurement] for debit in history), Fraction(0))


def compare_reserve(
    account: Account,
    history: list[ModelDebit],
    receipts: list[tuple[Receipt, ModelDebit]],
    id: str | None,
    measurement: int,
    fresh: bool,
) -> None:
    expected = model(history, id, measurement, fresh)
    event = compose(Claim(COSTS[measurement], Fraction(0)))
    try:
        found = account.reserve(event, measurement=f"m{measurement}", id=id, fresh=fresh)
    except BudgetExceeded:
        assert expected is None
        return
    except BadParameter:
        assert expected is not None
        assert expected.measurement != measurement
        return
    assert expected is not None
    assert expected.measurement == measurement
    if isinstance(found, CachedAnswer):
        assert found.answer == expected.answer
        return
    assert expected.answer is None
    if not any(expected is debit for debit in history):
        history.append(expected)
    receipts.append((found, expected))


@settings(max_examples=150, deadline=None)
@given(histories)
def test_an_account_in_memory_follows_the_model(operations: list[Any]) -> None:
    account = MemoryAccount(create_budget(1, 0))
    compare_with_model(TwoHandles(lambda: account), operations)


@pytest.mark.parametrize(("store", "examples"), [("sqlite", 120), ("postgres", 25), (SCHEME, 60)])
def test_a_ledger_follows_the_model(store: str, examples: int, request: pytest.FixtureRequest) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(histories)
    def follows(operations: list[Any]) -> None:
        with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
            file = f"{folder}/l" if store == "sqlite" else f"{SCHEME}://{folder}/l"
            location, name = str(request.getfixturevalue("server")) if store == "postgres" else file, uuid4().hex
            with open_ledger(location, create=True) as ledger:
                ledger.open_account(name, 1)
                compare_with_model(TwoHandles(lambda: open_ledger(location).get_account(name)), operations)
                assert check_ledger(ledger).is_valid

    follows()


def test_the_model_notices_a_mutant_that_forgets_its_debits() -> None:
    class Forgetful(MemoryAccount):
        """After a crash it debits again."""

        def reserve(self, event: Any, **given: Any) -> Any:
            return self.pay(event)

    mutant = Forgetful(create_budget(1, 0))
    twice = [("reserve", "a", 2, False, 0), ("reopen", 0), ("reserve", "a", 2, False, 0)]
    with pytest.raises(AssertionError):
        compare_with_model(TwoHandles(lambda: mutant), twice)


@pytest.mark.parametrize("wrong", [5, b"m", None, ("a", 1), "a\0b", "\ud800"])
def test_what_no_store_holds_is_refused_before_anything_is_written(location: str, wrong: Any) -> None:
    """Entries that cannot be read back would end the chain for good."""
    ledger = open_ledger(location, create=True)
    accounts: tuple[Any, ...] = (ledger.open_account("hr", 1), MemoryAccount(create_budget(1, 0)))
    for account in accounts:
        with pytest.raises(BadParameter, match="measurement is "):
            account.reserve(WHOLE, measurement=wrong, fresh=True)
        with pytest.raises(BadParameter, match="privacy_unit is "):
            account.reserve(WHOLE, measurement="m", privacy_unit=wrong)
        if wrong is not None:
            with pytest.raises(BadParameter, match="id is "):
                account.reserve(WHOLE, measurement="m", id=wrong)
        assert account.budget.spent == 0
        receipt = account.reserve(WHOLE, measurement="m")
        if not isinstance(wrong, bytes):
            with pytest.raises(BadParameter, match="answer is of type"):
                account.record(receipt, wrong)
        assert account.record(receipt, b"right") == b"right"
    assert check_ledger(ledger).is_valid


def test_a_list_of_entries_holds_no_other_thread_up(location: str) -> None:
    ledger = open_ledger(location, create=True)
    account = ledger.open_account("hr", 1)
    for i in range(3):
        account.reserve(TENTH, measurement=f"{i}")
    with ThreadPoolExecutor(1) as pool:
        entries = pool.submit(lambda: (listed := ledger.iter_entries(), next(listed))).result()[0]
        assert isinstance(account.reserve(TENTH, measurement="here"), Receipt)
        assert isinstance(pool.submit(account.reserve, TENTH, measurement="there").result(timeout=60), Receipt)
    assert [entry.number for entry in entries] == [2, 3, 4]
    assert len([*ledger.iter_entries()]) == 6


def test_entries_are_listed_over_several_transactions(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.ledger.chain.ENTRIES_AT_ONCE", 2)
    ledger = open_ledger(folder / "l", create=True)
    account = ledger.open_account("hr", 1)
    for i in range(5):
        assert [entry.number for entry in ledger.iter_entries()] == [*range(1, i + 2)]
        account.reserve(TENTH, measurement=f"{i}")


def test_a_cost_that_another_thread_forgets_meanwhile_is_charged(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Forgotten(dict[Any, Any]):
        def __setitem__(self, key: Any, value: Any) -> None:
            self.clear()

    monkeypatch.setattr(chain, "_charges", Forgotten())
    account = open_ledger(folder / "l", create=True).open_account("hr", epsilon=1)
    assert account.pay(compose(Claim(Fraction(1, 3), Fraction(0)))).remaining == Fraction(2, 3)
