"""Threads that debit at the same time share one commit, and each debit is still a transaction of its own."""

import contextlib
import gc
import inspect
import os
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import discreet.ledger.sqlite
from discreet import codec
from discreet.accounting.currencies import Receipt
from discreet.errors import BudgetExceeded, DiscreetError, LedgerCorrupted, LedgerUnavailable
from discreet.events import Claim, compose
from discreet.ledger.chain import Ledger
from discreet.ledger.check import check_ledger
from discreet.ledger.sqlite import Member, SqliteStore

THREADS = 12
SMALL = compose(Claim(Fraction(1, 100), Fraction(0)))
LARGE = compose(Claim(Fraction(50), Fraction(0)))


class Watched:
    """A connection that notes the statements which begin and end transactions, and does something before a commit."""

    def __init__(self, connection: sqlite3.Connection, before_commit: Callable[[], None] = lambda: None) -> None:
        self.connection, self.before_commit, self.seen = connection, before_commit, list[str]()

    def execute(self, statement: str, *values: Any) -> Any:
        if statement.partition(" ")[0] in ("BEGIN", "COMMIT", "ROLLBACK"):
            self.seen.append(statement)
        if statement == "COMMIT":
            self.before_commit()
        return self.connection.execute(statement, *values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)


class ShowsBeforeTheDisk(SqliteStore):
    """A mutant: a member goes on before its batch is committed."""

    def _join(self, batch: list[Member]) -> None:
        super()._join(batch)
        for member in batch:
            if member.returned is not None:
                member.end()


class KeepsWhatFailed(SqliteStore):
    """A mutant: a body that fails after it has written is not undone."""

    def _run_again_without(self, failed: Member, batch: list[Member], failure: Exception | None = None) -> None:
        assert self._connection is not None
        self._connection.execute("COMMIT")
        for member in batch:
            member.end()


class OverlooksOthers(SqliteStore):
    """A mutant: what it remembers is never read again."""

    def _data_version(self, connection: sqlite3.Connection) -> int:
        return 0


def make_ledger(folder: Path, store: type[SqliteStore] = SqliteStore) -> tuple[Ledger, Any]:
    ledger = Ledger(store(folder / "l", create=True))
    ledger.open_account("hr", 20)
    return ledger, ledger.store


def watch(store: Any, before_commit: Callable[[], None] = lambda: None) -> Watched:
    store._connection = Watched(store._connection, before_commit)
    watched: Watched = store._connection
    return watched


def debit_at_once(ledger: Ledger, store: Any, events: list[Any]) -> dict[int, Any]:
    """Let all threads queue for the connection, then let them go. Return what each got: an entry, or an error."""
    got: dict[int, Any] = {}

    def debit(i: int) -> None:
        try:
            got[i] = account.reserve(events[i], measurement=f"m{i}", id=f"q{i}").entry
        except DiscreetError as error:
            got[i] = error

    account = ledger.get_account("hr")
    threads = [threading.Thread(target=debit, args=(i,)) for i in range(len(events))]
    with store._lock:
        for thread in threads:
            thread.start()
        while len(store._waiting) < len(threads):
            pass
    for thread in threads:
        thread.join()
    return got


def test_debits_that_queue_share_one_commit(folder: Path) -> None:
    ledger, store = make_ledger(folder)
    watched = watch(store)
    got = debit_at_once(ledger, store, [SMALL] * THREADS)
    assert watched.seen.count("BEGIN IMMEDIATE") == watched.seen.count("COMMIT") - 1 == 1  # one reader, one batch
    assert sorted(got.values()) == list(range(2, THREADS + 2))
    report = check_ledger(ledger)
    assert (report.problem, report.accounts[0].budget.spent) == (None, THREADS * Fraction(1, 100))


def test_a_batch_is_bounded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discreet.ledger.sqlite, "MAX_BATCH", 4)
    ledger, store = make_ledger(folder)
    watched = watch(store)
    debit_at_once(ledger, store, [SMALL] * THREADS)
    assert watched.seen.count("BEGIN IMMEDIATE") == THREADS // 4
    assert check_ledger(ledger).is_valid


def test_no_member_goes_on_before_the_disk_has_its_entry(folder: Path) -> None:
    assert list_shown_before_commit(folder, SqliteStore) == []


def test_a_member_that_goes_on_too_early_is_found(folder: Path) -> None:
    assert list_shown_before_commit(folder, ShowsBeforeTheDisk) != []


def list_shown_before_commit(folder: Path, kind: type[SqliteStore]) -> list[int]:
    """The threads that had their receipts while the commit of their batch had not begun to return."""
    ledger, store = make_ledger(folder, kind)
    account, shown, early = ledger.get_account("hr"), list[int](), list[int]()

    def debit(i: int) -> None:
        account.reserve(SMALL, measurement=f"m{i}")
        shown.append(i)

    def look() -> None:
        for thread in set(threads) - {threading.current_thread()}:
            thread.join(0.02)  # a thread that goes on too early ends within this time
        early.extend(shown)

    threads = [threading.Thread(target=debit, args=(i,)) for i in range(THREADS)]
    with store._lock:
        for thread in threads:
            thread.start()
        while len(store._waiting) < THREADS:
            pass
        watch(store, look)
    for thread in threads:
        thread.join()
    return early


def test_a_commit_that_fails_fails_every_debit_in_it(folder: Path) -> None:
    ledger, store = make_ledger(folder)
    account = ledger.get_account("hr")

    def fail() -> None:
        if watched.seen[-2] == "BEGIN IMMEDIATE":
            raise sqlite3.OperationalError("database or disk is full")

    watched = watch(store, fail)
    got = debit_at_once(ledger, store, [SMALL] * THREADS)
    assert {type(each) for each in got.values()} == {LedgerUnavailable}
    assert len({id(each) for each in got.values()}) == THREADS  # each thread has an error of its own
    assert account.budget.spent == 0  # on a new connection
    assert check_ledger(ledger).entries == 1


def test_an_error_of_one_member_undoes_its_own_entry_alone(folder: Path) -> None:
    for refused in range(THREADS):
        (folder / str(refused)).mkdir()
        ledger, store = make_ledger(folder / str(refused))
        got = debit_at_once(ledger, store, [LARGE if i == refused else SMALL for i in range(THREADS)])
        assert isinstance(got.pop(refused), BudgetExceeded)
        assert sorted(got.values()) == list(range(2, THREADS + 1))
        report = check_ledger(ledger)
        assert (report.problem, report.accounts[0].budget.spent) == (None, (THREADS - 1) * Fraction(1, 100))
        ledger.close()


def run_at_once(store: Any, bodies: list[Callable[[Any], Any]]) -> dict[int, Any]:
    """Let all threads queue with these bodies, in this order, then let them go. Return what each got."""
    got: dict[int, Any] = {}

    def run(i: int) -> None:
        try:
            got[i] = store.transact(bodies[i])
        except Exception as error:
            got[i] = error

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(bodies))]
    with store._lock:
        for i, thread in enumerate(threads):
            thread.start()
            while len(store._waiting) <= i:
                pass
    for thread in threads:
        thread.join()
    return got


class Stop(Exception):
    pass


def find_poisoned(folder: Path, kind: type[SqliteStore], failing: set[int]) -> str | None:
    """What is wrong after some of the bodies in one batch failed, each after it had written a debit."""
    ledger, store = make_ledger(folder, kind)
    account = ledger.get_account("hr")

    def make_body(i: int) -> Callable[[Any], Any]:
        def body(transaction: Any) -> int:
            encoded = codec.encode(SMALL)
            charge = account._compute_charge(encoded, Fraction(0))
            debit = account._debit(transaction, f"q{i}", f"m{i}", SMALL, encoded, charge, Fraction(0), "")
            if i in failing:
                raise Stop
            return debit.entry

        return body

    got = run_at_once(store, [make_body(i) for i in range(6)])
    well = [got[i] for i in range(6) if i not in failing]
    if {type(got[i]) for i in failing} - {Stop}:
        return "a body's own error is not raised"
    if well != [*range(2, 2 + len(well))]:
        return f"the others got {well}"
    report = check_ledger(ledger)
    return report.problem or (None if report.entries == 1 + len(well) else f"{report.entries} entries")


def test_a_body_that_fails_after_it_has_written_leaves_nothing_and_the_others_their_entries(folder: Path) -> None:
    for i, failing in enumerate(({0}, {3}, {5}, {0, 5}, {1, 2, 3}, set(range(6)))):
        (folder / str(i)).mkdir()
        assert find_poisoned(folder / str(i), SqliteStore, failing) is None


def test_a_store_that_keeps_what_failed_is_found(folder: Path) -> None:
    assert find_poisoned(folder, KeepsWhatFailed, {3}) is not None


def find_overlooked(folder: Path, kind: type[SqliteStore]) -> str | None:
    """What is wrong after two connections and transactions of every kind have written in turns."""
    one, _ = make_ledger(folder, kind)
    others = [one, Ledger(kind(folder / "l")), Ledger(kind(folder / "l"))]
    try:
        for i in range(30):
            ledger = others[i * i % 3 if i < 20 else i % 3]
            if i % 7 == 3:
                ledger.open_account(f"account {i}", 1)
            receipt = ledger.get_account("hr").reserve(SMALL, measurement=f"m{i}")
            if i % 5 == 2:
                assert isinstance(receipt, Receipt)
                others[(i + 1) % 3].get_account("hr").record(receipt, b"about 40")
    except DiscreetError as error:
        return str(error)
    report = check_ledger(one)
    return report.problem or (None if report.accounts[0].budget.spent == 30 * Fraction(1, 100) else "another sum")


def test_what_other_connections_write_is_read(folder: Path) -> None:
    assert find_overlooked(folder, SqliteStore) is None


def test_a_store_that_overlooks_other_connections_is_found(folder: Path) -> None:
    assert find_overlooked(folder, OverlooksOthers) is not None


def test_a_reader_sees_a_batch_when_it_is_on_the_disk(folder: Path) -> None:
    ledger, store = make_ledger(folder)
    account, seen, early = ledger.get_account("hr"), list[Fraction](), list[Fraction]()
    reader = threading.Thread(target=lambda: seen.append(account.budget.spent))

    def look() -> None:
        if watched.seen[-2] == "BEGIN IMMEDIATE":
            reader.start()
            reader.join(0.05)
            early.extend(seen)

    watched = watch(store, look)
    account.reserve(SMALL, measurement="m")
    reader.join()
    assert (early, seen) == ([], [Fraction(1, 100)])


def test_a_member_runs_the_batch_if_the_thread_before_it_never_does(folder: Path) -> None:
    ledger, store = make_ledger(folder)
    store._waiting.append(Member(lambda transaction: None))
    ledger.get_account("hr").reserve(SMALL, measurement="m")
    assert not store._waiting
    assert check_ledger(ledger).entries == 2


def test_a_fork_waits_for_the_batch(folder: Path) -> None:
    ledger, store = make_ledger(folder)
    account, begun = ledger.get_account("hr"), threading.Event()
    watch(store, lambda: begun.set() or time.sleep(0.05))
    thread = threading.Thread(target=lambda: account.reserve(SMALL, measurement="m"))
    thread.start()
    begun.wait()
    child = os.fork()
    if child == 0:
        os._exit(0 if ledger.get_account("hr").budget.spent == Fraction(1, 100) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    thread.join()
    assert check_ledger(ledger).entries == 2


def interrupt_at(step: int, act: Callable[[], object]) -> bool:
    """Do something, and raise KeyboardInterrupt at the n-th step of the store or of its context managers. Python does so
    when a signal has come, where a function begins and after each call has returned. Return whether there is such a step."""
    steps = 0

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal steps
        code = frame.f_code
        if code.co_filename not in (discreet.ledger.sqlite.__file__, contextlib.__file__) or code.co_name == "__del__":
            return
        if event == "c_call" or (event == "return" and code.co_flags & inspect.CO_GENERATOR):
            return  # a call that has not returned; a generator that yields, which returns to `next`
        steps += 1
        if steps == step:
            sys.setprofile(None)
            raise KeyboardInterrupt

    gc.disable()  # a store of an earlier test that is collected here would be interrupted in its place
    sys.setprofile(profile)
    try:
        act()
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(None)
        gc.enable()
    return steps >= step


@pytest.mark.parametrize("kind", ["a batch", "a transaction"])
def test_an_interruption_at_any_step_leaves_no_lock_and_no_member_waiting(
    folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """This thread runs a batch of which another one is a member, or a transaction alone while another one waits."""
    monkeypatch.setattr(discreet.ledger.sqlite, "BATCH_WAIT_SECONDS", 0.01)
    step, found = 0, True
    while found:
        step += 1
        (folder / str(step)).mkdir()
        ledger, store = make_ledger(folder / str(step))
        account = ledger.get_account("hr")
        got = list[Any]()

        def debit(account: Any = account, got: list[Any] = got) -> None:
            try:
                got.append(account.reserve(SMALL, measurement="m", id="q").entry)
            except LedgerUnavailable as error:
                got.append(error)

        def act(account: Any = account, ledger: Ledger = ledger) -> None:
            if kind == "a batch":
                account.reserve(SMALL, measurement="n", id="r")
            else:
                ledger.open_account("other", 1)

        member = threading.Thread(target=debit, daemon=True)
        with store._lock:  # held, so that this thread runs the batch
            member.start()
            while not store._waiting:
                pass
            found = interrupt_at(step, act)
        member.join(5)
        assert len(got) == 1, f"the member waits for ever after an interruption at step {step}"
        with closing(sqlite3.connect(store.path, timeout=0, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")  # nothing holds the file
        debit()
        assert isinstance(got[-1], int), f"the store is unusable after an interruption at step {step}"
        if isinstance(got[0], int):
            assert got[0] == got[1]  # what was shown is on the disk
        assert not store._waiting
        assert check_ledger(ledger).is_valid
        ledger.close()
    assert step > 40


def delete_all_and(store: Any, act: Callable[[], object]) -> None:
    with store.write_transaction() as transaction:
        transaction.run("DELETE FROM discreet_entries", ())
        act()


def test_a_transaction_inside_another_is_refused_and_nothing_of_it_stays(folder: Path) -> None:
    ledger, store = make_ledger(folder)
    account = ledger.get_account("hr")
    for nested in (lambda: account.reserve(SMALL, measurement="n"), lambda: account.budget, ledger.close):
        with pytest.raises(LedgerUnavailable):
            delete_all_and(store, nested)
        assert check_ledger(ledger).entries == 1
    for nested in (lambda: account.reserve(SMALL, measurement="n"), lambda: account.budget, ledger.close):
        with pytest.raises(LedgerUnavailable):
            store.transact(
                lambda transaction, nested=nested: transaction.run("DELETE FROM discreet_entries", ()) and nested()
            )
        assert check_ledger(ledger).entries == 1
    assert isinstance(account.reserve(SMALL, measurement="m"), Receipt)


def test_a_forked_child_waits_for_no_thread_of_its_parent(folder: Path) -> None:
    ledger, store = make_ledger(folder)
    store._waiting.append(Member(lambda transaction: None))
    child = os.fork()
    if child == 0:
        os._exit(len(store._waiting))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    ledger.close()


def test_a_row_that_cannot_be_read_fails_the_debits_of_its_account_alone(folder: Path) -> None:
    """Those of another account that share a commit with them are made."""
    ledger, store = make_ledger(folder)
    broken, whole = ledger.open_account("broken", 20), ledger.get_account("hr")
    ledger.close()
    with closing(sqlite3.connect(folder / "l", isolation_level=None)) as connection:
        connection.execute("UPDATE discreet_accounts SET spent = CAST(x'ff30' AS TEXT) WHERE name = 'broken'")
    failures = list[Exception]()

    def debit(account: Any, i: int) -> None:
        try:
            account.reserve(SMALL, measurement=f"{account.initial_state.name} {i}")
        except DiscreetError as error:
            failures.append(error)

    with store._lock:  # until all of them wait for one batch
        threads = [threading.Thread(target=debit, args=(account, i)) for i in range(6) for account in (whole, broken)]
        for thread in threads:
            thread.start()
        while len(store._waiting) < len(threads):
            time.sleep(0.001)
    for thread in threads:
        thread.join()
    assert whole.budget.spent == Fraction(6, 100)
    assert [type(failure) for failure in failures] == [LedgerCorrupted] * 6
