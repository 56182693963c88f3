"""The store in PostgreSQL: a server that cannot be reached, a database without a ledger."""

import os
import signal
import threading
from fractions import Fraction
from pathlib import Path

import pytest

from discreet.errors import BadParameter, LedgerUnavailable
from discreet.events import Claim, compose
from discreet.ledger import open_ledger


def test_a_server_that_cannot_be_reached(folder: Path) -> None:
    with pytest.raises(LedgerUnavailable, match="nothing is shown") as failed:
        open_ledger(f"postgresql://me:secret@/nothing?host={folder}")
    assert "secret" not in str(failed.value)
    with pytest.raises(BadParameter, match="not an address"):
        open_ledger("postgresql://host/db?nonsense=1")


def test_a_database_without_a_ledger(database: str) -> None:
    with pytest.raises(LedgerUnavailable, match="there is no ledger here"):
        open_ledger(database)


def test_a_child_that_is_forked_during_a_transaction_goes_on(database: str) -> None:
    """The thread that holds the lock is not there to release it."""
    ledger = open_ledger(database, create=True)
    account, event = ledger.open_account("hr", 1), compose(Claim(Fraction(1, 10), Fraction(0)))
    store, is_held, may_end = ledger.store, threading.Event(), threading.Event()

    def hold() -> None:
        with store.read_transaction():
            is_held.set()
            may_end.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    is_held.wait(60)
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        account.reserve(event, measurement="child")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    may_end.set()
    thread.join()
    assert account.budget.spent == Fraction(1, 10)
