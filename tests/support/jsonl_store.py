"""A ledger store without SQL: one JSON line per write transaction. It shows that `Store` and `Transaction` need no database.

A transaction reads the whole file and holds a lock on it; a line without its end was never committed. That is slow and
simple, which is what a second implementation to compare with should be.
"""

import fcntl
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

from discreet.errors import BadEventEncoding, LedgerCorrupted, LedgerUnavailable
from discreet.ledger import register_store
from discreet.ledger.account import AccountState
from discreet.ledger.entries import (
    GENESIS,
    AccountOpened,
    AnswerRecorded,
    Debit,
    Entry,
    FailureRecorded,
    QuarantineLifted,
    compute_hash,
    decode,
    encode,
)
from discreet.ledger.quarantine import FailureCounts
from discreet.ledger.store import Head, Returned, StoredEntry, read_account

SCHEME = "jsonl"


@dataclass
class JsonLinesTransaction:
    """Everything that the file holds, and the changes of this transaction."""

    location: str
    entries: list[Entry] = field(default_factory=list)
    totals: dict[str, list[object]] = field(default_factory=dict)
    changes: list[list[object]] = field(default_factory=list)
    committed: int = 0  # bytes of the file that hold committed transactions

    def apply(self, change: list[object]) -> None:
        """Apply one change: a new entry, or the totals of an account."""
        kind, *values = change
        if kind == "entry":
            self.entries.append(decode(str(values[0]).encode()))
        else:
            self.totals[str(values[0])] = values[1:]

    def read_head(self) -> Head:
        """As in `Transaction`."""
        return Head(self.entries[-1].number, compute_hash(encode(self.entries[-1]))) if self.entries else Head(0, GENESIS)

    def append(self, entry: Entry) -> None:
        """As in `Transaction`: all that follows from an entry is found by reading the entries."""
        self.changes.append(["entry", encode(entry).decode()])
        self.apply(self.changes[-1])

    def save_totals(self, account: AccountState) -> None:
        """As in `Transaction`."""
        for each in account.lineage:
            spent = str(each.budget.spent), str(each.budget.delta_spent)
            self.changes.append(["totals", each.name, *spent, each.debits, each.privacy_unit])
            self.apply(self.changes[-1])

    def find_entry(self, number: int) -> Entry | None:
        """As in `Transaction`."""
        return next((entry for entry in self.entries if entry.number == number), None)

    def find_hash(self, number: int) -> bytes | None:
        """As in `Transaction`."""
        found = self.find_entry(number)
        return None if found is None else compute_hash(encode(found))

    def find_debit_by_id(self, account: str, id: str) -> Debit | None:
        """As in `Transaction`."""
        return next((debit for debit in self._debits(account) if debit.id == id), None)

    def find_debit_by_measurement(self, account: str, measurement: str, *, in_family: bool = False) -> Debit | None:
        """As in `Transaction`."""
        root = self.read_root(account)
        names = [name for name in self.list_account_names() if self.read_root(name) == root] if in_family else [account]
        found = [debit for name in names for debit in self._debits(name) if debit.measurement == measurement]

        def rank(debit: Debit) -> tuple[bool, bool, int]:
            return self.find_answer(debit.number) is None, debit.account != account, debit.number

        return min(found, key=rank, default=None)

    def find_answer(self, debit: int) -> bytes | None:
        """As in `Transaction`."""
        answers = (entry for entry in self.entries if isinstance(entry, AnswerRecorded))
        return next((entry.answer for entry in answers if entry.debit == debit), None)

    def iter_entries(self, kind: str | None = None, *, after: int | None = None) -> Iterator[StoredEntry]:
        """As in `Transaction`."""
        for entry in self.entries:
            if kind in (None, entry.__struct_config__.tag) and (after is None or entry.number > after):
                body = encode(entry)
                yield StoredEntry(entry.number, body, compute_hash(body))

    def list_account_names(self) -> tuple[str, ...]:
        """As in `Transaction`."""
        return tuple(entry.account for entry in self.entries if isinstance(entry, AccountOpened))

    def read_accounts(self) -> tuple[AccountState, ...]:
        """As in `Transaction`."""
        found = [read_account(self, name) for name in self.list_account_names()]
        return tuple(account for account in found if account is not None)

    def read_root(self, account: str) -> str | None:
        """As in `Transaction`."""
        opening = self.read_opening(account)
        if opening is None or opening.parent is None:
            return None if opening is None else account
        return self.read_root(opening.parent) or account

    def read_opening(self, account: str) -> AccountOpened | None:
        """As in `Transaction`."""
        openings = (entry for entry in self.entries if isinstance(entry, AccountOpened))
        return next((entry for entry in openings if entry.account == account), None)

    def read_totals(self, account: AccountState) -> AccountState:
        """As in `Transaction`."""
        spent, delta_spent, debits, unit = self.totals.get(account.name, ["0", "0", 0, ""])
        budget = replace(account.budget, spent=Fraction(str(spent)), delta_spent=Fraction(str(delta_spent)))
        above = None if account.parent is None else self.read_totals(account.parent)
        return replace(account, budget=budget, parent=above, debits=int(str(debits)), privacy_unit=str(unit))

    def read_event_counts(self, account: str, limit: int | None = None) -> dict[bytes, int]:
        """As in `Transaction`."""
        return dict(list(Counter(bytes(debit.encoded_event) for debit in self._debits(account)).items())[:limit])

    def read_failures(self, source: str) -> FailureCounts:
        """As in `Transaction`."""
        return self.list_failures().get(source, FailureCounts())

    def list_failures(self) -> dict[str, FailureCounts]:
        """As in `Transaction`."""
        found: dict[str, FailureCounts] = {}
        for entry in self.entries:
            if isinstance(entry, FailureRecorded):
                found[entry.source] = found.get(entry.source, FailureCounts()).add_failure(entry.failure)
            elif isinstance(entry, QuarantineLifted):
                found[entry.source] = FailureCounts()
        return found

    def _debits(self, account: str) -> Iterator[Debit]:
        return (entry for entry in self.entries if isinstance(entry, Debit) and entry.account == account)


class JsonLinesStore:
    """The file at jsonl://PATH."""

    def __init__(self, location: str, create: bool) -> None:
        self.location, self.path = location, Path(location.removeprefix(f"{SCHEME}://"))
        if create:
            self.path.touch()
        if not self.path.exists():
            raise LedgerUnavailable(location, "there is no ledger here", "make one")

    def transact(self, body: Callable[[JsonLinesTransaction], Returned]) -> Returned:
        """As in `Store`."""
        with self.write_transaction() as transaction:
            return body(transaction)

    @contextmanager
    def write_transaction(self) -> Iterator[JsonLinesTransaction]:
        """As in `Store`."""
        with self.path.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            transaction = self._read(file.read())
            yield transaction
            if transaction.changes:
                file.truncate(transaction.committed)
                file.seek(transaction.committed)
                file.write(json.dumps(transaction.changes).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())

    @contextmanager
    def read_transaction(self) -> Iterator[JsonLinesTransaction]:
        """As in `Store`."""
        with self.path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            content = file.read()
        yield self._read(content)

    def check_integrity(self) -> str | None:
        """As in `Store`: a line that cannot be read is found when it is read."""
        return None

    def close(self) -> None:
        """As in `Store`: nothing is open between two transactions."""

    def _read(self, content: bytes) -> JsonLinesTransaction:
        lines = content.splitlines(keepends=True)
        committed = [line for line in lines if line.endswith(b"\n")]
        transaction = JsonLinesTransaction(self.location, committed=sum(map(len, committed)))
        try:
            for change in (change for line in committed for change in json.loads(line)):
                transaction.apply(change)
        except (ValueError, BadEventEncoding) as error:
            raise LedgerCorrupted(self.location, str(error)) from None
        return transaction


register_store(SCHEME, JsonLinesStore)
