"""The tables of a ledger inside one transaction: reading and appending, and no rule."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, TypeVar

from discreet.errors import BadFact, LedgerBroken
from discreet.ledger.account import Account
from discreet.ledger.entry import (
    GENESIS,
    Answered,
    Debit,
    Entry,
    FailureRecorded,
    KeyRotated,
    Opened,
    QuarantineLifted,
    decode,
    decode_debit,
    encode,
    hash_of,
)
from discreet.ledger.failures import FailureCounts
from discreet.ledger.schema import Run, tally

Kind = TypeVar("Kind")
ROWS = 1000
"""How many entries are fetched at a time."""


@dataclass(frozen=True, slots=True)
class Row:
    """An entry as it is stored, its columns beside its bytes."""

    number: int
    kind: str
    account: str
    id: str | None
    measurement: str | None
    debit: int | None
    body: bytes
    hash: bytes


@dataclass(frozen=True, slots=True)
class Pages:
    """One transaction's view."""

    run: Run
    where: str

    def last(self) -> tuple[int, bytes]:
        """Number and hash of the last entry; 0 and the genesis hash if there is none."""
        row = self._one("SELECT number, hash FROM discreet_entries ORDER BY number DESC LIMIT 1")
        return (self._whole(row[0]), self._raw(row[1])) if row else (0, GENESIS)

    def append(self, entry: Entry) -> bytes:
        """Write the entry and return its hash. Its number and its link are the caller's to get right."""
        body = encode(entry)
        link = hash_of(body)
        self.run(
            "INSERT INTO discreet_entries (number, kind, account, id, measurement, debit, body, hash) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (entry.number, *columns_of(entry), body, link),
        )
        return link

    def account(self, name: str) -> Account | None:
        """An account with its totals, and its parents with theirs."""
        opened = self.opening(name)
        if opened is None:
            return None
        above = None if opened.parent is None else self.account(opened.parent)
        return self.totals(opened.fresh(above))

    def opening(self, name: str) -> Opened | None:
        """The entry that opened an account."""
        row = self._one("SELECT opened FROM discreet_accounts WHERE name = ?", name)
        if row is None:
            return None
        opened = self.by_number(row[0])
        if not isinstance(opened, Opened) or opened.account != name:
            raise LedgerBroken(self.where, f"account {name!r} does not point at the entry that opened it")
        return opened

    def totals(self, account: Account) -> Account:
        """The same account and its parents with their totals of now."""
        row = self._one("SELECT spent, leaked, debits, whose FROM discreet_accounts WHERE name = ?", account.name)
        if row is None:
            raise LedgerBroken(self.where, f"account {account.name!r} is gone")
        above = None if account.parent is None else self.totals(account.parent)
        try:
            return totalled(replace(account, parent=above), row)
        except (ValueError, TypeError, ZeroDivisionError):
            raise LedgerBroken(self.where, f"the totals of account {account.name!r} are no numbers") from None

    def names(self) -> tuple[str, ...]:
        """Every account, in the order of opening."""
        return tuple(row[0] for row in self.run("SELECT name FROM discreet_accounts ORDER BY opened", ()).fetchall())

    def add_account(self, name: str, opened: int) -> None:
        """A new account with nothing spent."""
        self.run("INSERT INTO discreet_accounts (name, opened, spent, leaked) VALUES (?, ?, '0', '0')", (name, opened))

    def save(self, account: Account) -> None:
        """Write the totals of an account and its parents."""
        for each in account.line:
            self.run(
                "UPDATE discreet_accounts SET spent = ?, leaked = ?, debits = ?, whose = ? WHERE name = ?",
                (str(each.kept.spent), str(each.kept.leaked), each.debits, each.whose, each.name),
            )

    def by_id(self, account: str, id: str) -> Debit | None:
        """The debit with this id."""
        return self._debit("account = ? AND id = ?", account, id)

    def by_measurement(self, account: str, measurement: str) -> Debit | None:
        """The first debit of this measurement that has an answer; else the first one."""
        answered = "EXISTS (SELECT 1 FROM discreet_entries AS a WHERE a.debit = discreet_entries.number)"
        return self._debit(f"account = ? AND measurement = ? ORDER BY {answered} DESC, number LIMIT 1", account, measurement)

    def by_number(self, number: int) -> Entry | None:
        """The entry with this number."""
        row = self._one("SELECT body FROM discreet_entries WHERE number = ?", number)
        return self._decoded(self._raw(row[0])) if row else None

    def body(self, number: int) -> bytes:
        """The bytes of an entry that is there."""
        return self._raw(self._one("SELECT body FROM discreet_entries WHERE number = ?", number)[0])

    def hash_at(self, number: int) -> bytes | None:
        """The hash of the entry with this number, if there can be one."""
        known = 0 < number < 1 << 63
        row = self._one("SELECT hash FROM discreet_entries WHERE number = ?", number) if known else None
        return self._raw(row[0]) if row else None

    def answer(self, debit: int) -> bytes | None:
        """What was released for a debit."""
        row = self._one("SELECT body FROM discreet_entries WHERE debit = ?", debit)
        entry = self._decoded(self._raw(row[0])) if row else None
        return entry.answer if isinstance(entry, Answered) else None

    def rows(self) -> Iterator[Row]:
        """Every entry, in order, a batch at a time: no history is too long to hold."""
        last = -(1 << 63)  # a number that no entry should have is still an entry: whoever planted it is found by the chain
        columns = "number, kind, account, id, measurement, debit, body, hash"
        order = ">="
        while batch := self.run(
            f"SELECT {columns} FROM discreet_entries WHERE number {order} ? ORDER BY number LIMIT {ROWS}", (last,)
        ).fetchall():
            for number, kind, account, id, measurement, debit, body, link in batch:
                yield Row(number, kind, account, id, measurement, debit, self._raw(body), self._raw(link))
            last, order = self._whole(batch[-1][0]), ">"

    def facts(self, account: str, most: int | None = None) -> dict[bytes, int]:
        """The facts of an account's debits and how often each occurs: all of them, or so many."""
        limit = "" if most is None else f" LIMIT {most}"
        found = self.run(f"SELECT facts, times FROM discreet_facts WHERE account = ? ORDER BY hash{limit}", (account,))
        return {self._raw(facts): self._whole(times) for facts, times in found.fetchall()}

    def tally(self, account: str, facts: bytes) -> None:
        """Count one more debit with these facts."""
        tally(self.run, account, facts)

    def failures(self, source: str) -> FailureCounts:
        """The failures that are counted for a source."""
        row = self._one("SELECT decoding, resource FROM discreet_sources WHERE hash = ?", hash_of(source.encode()))
        return FailureCounts() if row is None else FailureCounts(self._whole(row[0]), self._whole(row[1]))

    def sources(self) -> dict[str, FailureCounts]:
        """Every source for which a failure was ever recorded, with its counts."""
        found: dict[str, FailureCounts] = {}
        rows = self.run("SELECT hash, source, decoding, resource FROM discreet_sources", ()).fetchall()
        for key, source, decoding, resource in rows:
            if self._raw(key) != hash_of(str(source).encode()):
                raise LedgerBroken(self.where, "a source's key is not the hash of the source")
            found[source] = FailureCounts(self._whole(decoding), self._whole(resource))
        return found

    def save_failures(self, source: str, counts: FailureCounts) -> None:
        """Write the counts of a source."""
        self.run(
            "INSERT INTO discreet_sources (hash, source, decoding, resource) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (hash) DO UPDATE SET decoding = excluded.decoding, resource = excluded.resource",
            (hash_of(source.encode()), source, counts.decoding, counts.resource),
        )

    def rotations(self) -> tuple[KeyRotated, ...]:
        """Every rotation of the ledger's key."""
        rows = self.run("SELECT body FROM discreet_entries WHERE kind = 'rotate' ORDER BY number", ()).fetchall()
        found = (self._decoded(self._raw(body)) for (body,) in rows)
        return tuple(entry for entry in found if isinstance(entry, KeyRotated))

    def _debit(self, condition: str, *values: Any) -> Debit | None:
        row = self._one(f"SELECT body FROM discreet_entries WHERE {condition}", *values)
        return self._read_debit(self._raw(row[0])) if row else None

    def _one(self, sql: str, *values: Any) -> Any:
        return self.run(sql, values).fetchone()

    def _decoded(self, body: bytes) -> Entry:
        return self._understood(decode, body)

    def _read_debit(self, body: bytes) -> Debit:
        return self._understood(decode_debit, body)

    def _understood(self, read: Callable[[bytes], Kind], body: bytes) -> Kind:
        try:
            return read(body)
        except BadFact as wrong:
            raise LedgerBroken(self.where, str(wrong)) from None

    def _raw(self, cell: Any) -> bytes:
        if not isinstance(cell, bytes | memoryview):
            raise LedgerBroken(self.where, "an entry's bytes are something else")
        return bytes(cell)

    def _whole(self, cell: Any) -> int:
        if not isinstance(cell, int):
            raise LedgerBroken(self.where, "an entry's number is something else")
        return cell


def columns_of(entry: Entry) -> tuple[str, str, str | None, str | None, int | None]:
    """What stands in the columns beside an entry's bytes: kind, account, id, measurement, debit."""
    match entry:
        case Opened():
            return "open", entry.account, None, None, None
        case Debit():
            return "debit", entry.account, entry.id, entry.measurement, None
        case Answered():
            return "answer", entry.account, None, None, entry.debit
        case FailureRecorded():
            return "failure", "", None, None, None
        case QuarantineLifted():
            return "lift", "", None, None, None
        case KeyRotated():
            return "rotate", "", None, None, None


def totalled(account: Account, row: Any) -> Account:
    """The account with the totals that are stored for it."""
    spent, leaked, debits, whose = row
    kept = replace(account.kept, spent=Fraction(spent), leaked=Fraction(leaked))
    return replace(account, kept=kept, debits=debits, whose=whose)
