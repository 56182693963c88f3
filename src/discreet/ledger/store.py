"""What a ledger needs of the place that keeps it: two protocols, in terms of entries, accounts, heads and failures.

A store remembers the chain of entries and, beside it, what would be slow to add up again from the entries: the totals of
every account, how often each event was debited, the failures of every source. Only `append` and `save_totals` write. A store
holds no rule: `chain` decides what may be appended, and `check` adds everything up again and compares.

A new store implements both protocols, is registered with `discreet.ledger.register_store` and joins the conformance tests
in tests/ledger/test_store.py.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol, TypeVar
from uuid import uuid4

from msgspec.structs import replace

from discreet.errors import BadEventEncoding, LedgerCorrupted
from discreet.ledger.account import AccountState
from discreet.ledger.entries import AccountOpened, Debit, Entry, EntryKeys, decode
from discreet.ledger.quarantine import FailureCounts

Returned = TypeVar("Returned")


class Head(NamedTuple):
    """The end of a chain: the number and the hash of its last entry; 0 and `GENESIS` for an empty one."""

    number: int
    hash: bytes


class StoredEntry(NamedTuple):
    """An entry as it is stored, not yet decoded."""

    number: int
    body: bytes
    hash: bytes
    keys: EntryKeys | None = None  # as the store holds them beside the entry; None if it holds none


class Transaction(Protocol):
    """One atomic view of a store. What it reads and cannot make sense of raises `LedgerCorrupted`."""

    @property
    def location(self) -> str:
        """The location of the store, for messages."""
        ...

    def read_head(self) -> Head:
        """Return the end of the chain."""
        ...

    def append(self, entry: Entry) -> None:
        """Write an entry and what follows from it alone: that an account exists, one more debit of an event, the failures
        of a source. Its number and its link are the caller's to get right."""
        ...

    def save_totals(self, account: AccountState) -> None:
        """Write what an account and its parents have spent, their debits and their privacy unit."""
        ...

    def find_entry(self, number: int) -> Entry | None:
        """Return the entry with this number, which may be any integer."""
        ...

    def find_hash(self, number: int) -> bytes | None:
        """Return the hash of the entry with this number, which may be any integer."""
        ...

    def find_debit_by_id(self, account: str, id: str) -> Debit | None:
        """Return the debit of an account with this id."""
        ...

    def find_debit_by_measurement(self, account: str, measurement: str, *, in_family: bool = False) -> Debit | None:
        """Return the first debit of this measurement that has an answer; if none has one, the first.

        With `in_family`, debits of every account under the same root count. The account's own come first, among those that
        have an answer and among those that have none.
        """
        ...

    def find_answer(self, debit: int) -> bytes | None:
        """Return the answer that is recorded for a debit."""
        ...

    def iter_entries(self, kind: str | None = None, *, after: int | None = None) -> Iterator[StoredEntry]:
        """Yield the entries in the order of their numbers, of one kind or all of them: also those with numbers that no entry
        should have. With `after`, those with larger numbers."""
        ...

    def list_account_names(self) -> tuple[str, ...]:
        """Return the name of every account, in the order of opening."""
        ...

    def read_accounts(self) -> tuple[AccountState, ...]:
        """Return every account with its parents and all their totals, in the order of opening."""
        ...

    def read_root(self, account: str) -> str | None:
        """Return the name of the account at the top of an account's parents, by which a family is found; None if the
        account was never opened."""
        ...

    def read_opening(self, account: str) -> AccountOpened | None:
        """Return the entry that opened an account."""
        ...

    def read_totals(self, account: AccountState) -> AccountState:
        """Return an account and its parents with the totals that are saved for them."""
        ...

    def read_event_counts(self, account: str, limit: int | None = None) -> dict[bytes, int]:
        """Return the encoded events of an account's debits and how often each occurs; at most `limit` of them."""
        ...

    def read_failures(self, source: str) -> FailureCounts:
        """Return the failures that are counted for a source."""
        ...

    def list_failures(self) -> dict[str, FailureCounts]:
        """Return every source for which a failure was ever recorded, with its counts."""
        ...


class Store(Protocol):
    """A place that remembers entries."""

    @property
    def location(self) -> str:
        """Where it is, for messages: without passwords."""
        ...

    def transact(self, body: Callable[[Transaction], Returned]) -> Returned:
        """Run a body in a write transaction, and return what it returned when that is durable. An error of the body undoes
        what it wrote, and is raised. This is for what many threads do at once: a store may run the bodies of several in one
        transaction.

        A body may run in another thread, and more than once, of which only the last counts. So it changes nothing but the
        transaction, takes no lock and opens no other transaction.
        """
        ...

    def write_transaction(self) -> AbstractContextManager[Transaction]:
        """Open the only transaction that writes, in this process or any other. It sees all that was written before; it is
        durable when it is left, and undone if it is left by an error."""
        ...

    def read_transaction(self) -> AbstractContextManager[Transaction]:
        """Open one consistent view."""
        ...

    def check_integrity(self) -> str | None:
        """Return what the place itself finds wrong with what it holds, besides the chain; None where it finds nothing."""
        ...

    def close(self) -> None:
        """Release the place. A later transaction opens it again."""
        ...


def append_entry(transaction: Transaction, entry: Entry) -> None:
    """Append an entry; the first one of a ledger gets the ledger's identity."""
    transaction.append(replace(entry, identity=uuid4().hex) if entry.number == 1 else entry)


def read_account(transaction: Transaction, name: str) -> AccountState | None:
    """Return an account with its parents and all their totals; None if it was never opened."""
    opened = transaction.read_opening(name)
    return None if opened is None else transaction.read_totals(_open_state(transaction, opened))


def _open_state(transaction: Transaction, opened: AccountOpened) -> AccountState:
    """Return the account as it was opened, with its parents as they were opened."""
    if opened.parent is None:
        return opened.to_account(None)
    above = transaction.read_opening(opened.parent)
    if above is None or above.number >= opened.number:
        raise LedgerCorrupted(transaction.location, f"account {opened.account!r} has no parent that was opened before it")
    return opened.to_account(_open_state(transaction, above))


def decode_stored(transaction: Transaction, stored: StoredEntry) -> Entry:
    """Decode an entry of a transaction.

    Raises:
        LedgerCorrupted: if its bytes are no entry.
    """
    try:
        return decode(stored.body)
    except BadEventEncoding as wrong:
        raise LedgerCorrupted(transaction.location, f"entry {stored.number}: {wrong}") from None
