"""Processes and threads, one ledger: totals exact, never a cent over, nobody waits for ever."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import msgspec
import pytest

from discreet import codec
from discreet.errors import BudgetExceeded
from discreet.events import Claim, compose
from discreet.ledger import open_ledger
from discreet.ledger.chain import LedgerAccount
from discreet.ledger.check import check_ledger
from discreet.ledger.entries import Debit
from discreet.ledger.store import CachedAnswer

ROOT = Path(__file__).parent.parent.parent
WHOLE = compose(Claim(Fraction(1), Fraction(0)))


def test_ten_thousand_debits_of_64_racers(place: str) -> None:
    debits = 10_000
    command = [sys.executable, "-m", "tests.ledger.racing", place, "32", "2", str(debits)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["statuses"] == [0] * 32
    assert found["problem"] is None
    assert found["told"] == found["entries"] == int(found["spent"].pop("all")) == debits
    assert sum(map(int, found["spent"].values())) == debits


def careful(account: LedgerAccount, name: str, looked: threading.Barrier) -> None:
    looked.wait()
    account.reserve(WHOLE, measurement=name)


def racy(account: LedgerAccount, name: str, looked: threading.Barrier) -> None:
    """The wrong twin: looks in one transaction, is interrupted, debits in another."""
    with account.store.read_transaction() as pages:
        after = pages.read_totals(account.initial_state).charge_cost(Fraction(1), Fraction(0))
    looked.wait()
    with account.store.write_transaction() as pages:
        number, link = pages.read_last()
        pages.append(
            Debit(
                number=number + 1, previous=link.hex(), account=after.name, id=name, measurement=name,
                facts=msgspec.Raw(codec.encode(WHOLE)), price=Fraction(1), leak=Fraction(0), spent=after.budget.spent,
                leaked=Fraction(0),
            )
        )  # fmt: skip
        pages.save_totals(after)


def paid_by_two(place: str, pay: Callable[[LedgerAccount, str, threading.Barrier], None]) -> int:
    """Two threads want the last unit of a budget at the same moment."""
    open_ledger(place, create=True).open_account("hr", 1)
    looked, paid = threading.Barrier(2), []

    def run(name: str) -> None:
        try:
            pay(open_ledger(place).get_account("hr"), name, looked)
            paid.append(name)
        except BudgetExceeded:
            pass

    threads = [threading.Thread(target=run, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(paid)


def test_the_last_unit_is_spent_once(place: str) -> None:
    assert paid_by_two(place, careful) == 1
    assert check_ledger(open_ledger(place)).is_valid


def test_looking_before_debiting_overspends_and_is_found_out(place: str) -> None:
    assert paid_by_two(place, racy) == 2
    assert "overdraws" in str(check_ledger(open_ledger(place)).problem)


def test_the_first_to_record_wins_and_both_show_its_answer(place: str) -> None:
    ledger = open_ledger(place, create=True)
    ledger.open_account("hr", 1)
    one, other = open_ledger(place).get_account("hr"), open_ledger(place).get_account("hr")
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
account, loss = ledger.open_account("hr", 1), compose(Claim(Fraction(1, 100), Fraction(0)))
child = os.fork()
if child and not {both}:
    os.waitpid(child, 0)
for i in range(30):
    account.reserve(loss, measurement=f"{{child == 0}} {{i}}")
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
