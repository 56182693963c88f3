"""The tables of a ledger and the statements on them: what the stores in SQLite and PostgreSQL share.

Totals stand beside the entries, so that neither opening an account nor reporting its budget adds up a history. The names of
tables and columns are those of the first version (`facts`, `leaked`, `whose`): they are on the disks of others and stay.

A process that waits for another one to leave a ledger says so to the logger `discreet.ledger`. Python prints a warning on
stderr unless a program configures the logger, so a person in a shell or a notebook sees it. It names the ledger, and
nothing of what it holds.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain
from typing import Any, TypeAlias, TypeVar

from discreet.accounting.currencies import Filter
from discreet.errors import PARAMETER_PAGES, BadEventEncoding, LedgerCorrupted, LedgerUnavailable
from discreet.ledger.account import AccountState
from discreet.ledger.entries import (
    GENESIS,
    AccountOpened,
    AnswerRecorded,
    Debit,
    Entry,
    EntryKeys,
    FailureRecorded,
    QuarantineLifted,
    compute_hash,
    decode,
    decode_debit,
    encode,
    read_event_bytes,
    read_parent,
)
from discreet.ledger.quarantine import FailureCounts
from discreet.ledger.store import Head, StoredEntry

RunStatement: TypeAlias = Callable[[str, tuple[Any, ...]], Any]
"""Runs one statement with its values and returns a cursor."""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE discreet_entries (number {key}, kind TEXT NOT NULL, account TEXT NOT NULL, id TEXT, measurement TEXT, "
        "debit BIGINT, body {bytes} NOT NULL, hash {bytes} NOT NULL)",
        "CREATE UNIQUE INDEX discreet_by_id ON discreet_entries (account, id) WHERE id IS NOT NULL",
        "CREATE INDEX discreet_by_measurement ON discreet_entries (account, measurement) WHERE measurement IS NOT NULL",
        "CREATE UNIQUE INDEX discreet_by_debit ON discreet_entries (debit) WHERE debit IS NOT NULL",
        "CREATE TABLE discreet_accounts (name TEXT PRIMARY KEY, opened BIGINT NOT NULL, spent TEXT NOT NULL, "
        "leaked TEXT NOT NULL)",
    ),
    (
        # Version 2 counts the debits of each account, and how often each of its events occurs.
        "ALTER TABLE discreet_accounts ADD COLUMN debits BIGINT NOT NULL DEFAULT 0",
        "UPDATE discreet_accounts SET debits = (SELECT COUNT(*) FROM discreet_entries "
        "WHERE kind = 'debit' AND account = discreet_accounts.name)",
        "CREATE TABLE discreet_facts (account TEXT NOT NULL, hash {bytes} NOT NULL, facts {bytes} NOT NULL, "
        "times BIGINT NOT NULL, PRIMARY KEY (account, hash))",
    ),
    (
        # Version 3 holds the privacy unit of an account. The entries of an older one do not state it: its next debit does.
        "ALTER TABLE discreet_accounts ADD COLUMN whose TEXT NOT NULL DEFAULT ''",
    ),
    (
        # Version 4 counts the failures of each source. A source may be longer than an index allows, so its hash is the key.
        "CREATE TABLE discreet_sources (hash {bytes} PRIMARY KEY, source TEXT NOT NULL, decoding BIGINT NOT NULL, "
        "resource BIGINT NOT NULL)",
    ),
    (
        # Version 5 holds the root of each account, and finds a measurement in all accounts under one root.
        "ALTER TABLE discreet_accounts ADD COLUMN root TEXT NOT NULL DEFAULT ''",
        "DROP INDEX discreet_by_measurement",
        "CREATE INDEX discreet_by_measurement ON discreet_entries (measurement, account) WHERE measurement IS NOT NULL",
    ),
)
"""What each version adds to the one before it; `{key}` and `{bytes}` are types that the two databases call differently."""

LATEST_VERSION = len(MIGRATIONS)

_IN_FAMILY = (
    "EXISTS (SELECT 1 FROM discreet_accounts AS payer JOIN discreet_accounts AS asker ON asker.root = payer.root "
    "WHERE payer.name = discreet_entries.account AND asker.name = ?)"
)
"""Asked for each debit of one measurement, of which there are few, however large the family is."""

BATCH_ROWS = 1000
"""How many entries are fetched at a time."""


def upgrade(run: RunStatement, location: str, *, key: str, bytes: str, create: bool) -> None:
    """Bring the tables to the latest version, inside the caller's transaction."""
    run("CREATE TABLE IF NOT EXISTS discreet_schema (version BIGINT NOT NULL)", ())
    row = run("SELECT version FROM discreet_schema", ()).fetchone()
    found = check_version(row, location) if row else 0
    if found == 0 and not create:
        raise missing_ledger_error(location)
    if row is None:
        run("INSERT INTO discreet_schema VALUES (0)", ())
    for statement in (each for version in MIGRATIONS[found:] for each in version):
        run(statement.format(key=key, bytes=bytes), ())
    if found == 1:
        _count_existing_events(run)
    if found < 5:
        _fill_roots(run)
    run(f"UPDATE discreet_schema SET version = {LATEST_VERSION}", ())


def check_version(row: Any, location: str) -> int:
    """Return the version of the schema.

    Raises:
        LedgerUnavailable: if a later version of discreet wrote it; what this one does not know, it would overlook.
        LedgerCorrupted: if it is no version.
    """
    version = row[0] if row else None
    if not isinstance(version, int) or version < 0:
        raise LedgerCorrupted(location, "its schema has no version")
    if version > LATEST_VERSION:
        raise LedgerUnavailable(
            location,
            f"its schema has version {version}, and this discreet knows versions up to {LATEST_VERSION}",
            "use a newer discreet",
        )
    return version


def missing_ledger_error(location: str, path: str | None = None) -> LedgerUnavailable:
    """There is no ledger at this location; `path` is that of its file."""
    shown = "ADDRESS" if path is None else repr(path)
    error = LedgerUnavailable(
        location,
        "there is no ledger here",
        f'check ledger=, or make one in Python: open_ledger({shown}, create=True).open_account("hr", epsilon=1)',
        make_at=path or "ADDRESS",
    )
    error.see = PARAMETER_PAGES["ledger"]
    return error


def _count_event(run: RunStatement, account: str, event: bytes, times: int = 1) -> None:
    run(
        "INSERT INTO discreet_facts (account, hash, facts, times) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (account, hash) DO UPDATE SET times = discreet_facts.times + excluded.times",
        (account, compute_hash(event), event, times),
    )


def _count_event_again(run: RunStatement, account: str, event: bytes, times: int) -> None:
    """Count debits of an event that the account probably had before: to change its row takes half as long as to look whether
    a new one is in conflict with it. The writer is alone, so no other inserts it in between."""
    known = "UPDATE discreet_facts SET times = times + ? WHERE account = ? AND hash = ?"
    if run(known, (times, account, compute_hash(event))).rowcount == 0:
        _count_event(run, account, event, times)


def _count_existing_events(run: RunStatement) -> None:
    """Count the events of a ledger of version 1, which did not."""
    last = -1
    debits = (
        "SELECT number, account, body FROM discreet_entries WHERE kind = 'debit' AND number > ? ORDER BY number LIMIT 1000"
    )
    while batch := run(debits, (last,)).fetchall():
        for _, account, body in batch:
            _count_event(run, account, read_event_bytes(bytes(body)))
        last = batch[-1][0]


def _fill_roots(run: RunStatement) -> None:
    """Find the root of every account of a ledger before version 5, which did not hold it. A parent is opened before its
    children; one that is not there makes the account a root, which shares nothing, and is what a check finds."""
    openings = (
        "SELECT name, body FROM discreet_accounts "
        "JOIN discreet_entries ON discreet_entries.number = discreet_accounts.opened ORDER BY opened"
    )
    roots: dict[str, str] = {}
    for name, body in run(openings, ()).fetchall():
        parent = read_parent(bytes(body)) if isinstance(body, bytes | memoryview) else None
        roots[name] = name if parent is None else roots.get(parent, name)
        run("UPDATE discreet_accounts SET root = ? WHERE name = ?", (roots[name], name))


Decoded = TypeVar("Decoded")


EntryRow: TypeAlias = tuple[int, str, str, str | None, str | None, int | None, bytes, bytes]
"""An entry as it stands in its table."""

ENTRY_COLUMNS = "number, kind, account, id, measurement, debit, body, hash"
ROWS_AT_ONCE = (16, 4, 1)
"""Rows are written by statements that take so many: one for each number of rows would have to be parsed each time."""
_INSERT_ENTRIES = {
    rows: f"INSERT INTO discreet_entries ({ENTRY_COLUMNS}) VALUES {', '.join(['(?, ?, ?, ?, ?, ?, ?, ?)'] * rows)}"
    for rows in ROWS_AT_ONCE
}


@dataclass(slots=True)
class Memory:
    """What transactions on one connection read and wrote last: it need not be read again while no other has written.

    Debits that share a commit share accounts and events, too. So totals and counts are remembered here while the debits are
    appended, and written once, by `flush`, before the commit. The rows of debits are written together, too: each statement
    lets other threads in. Answers and all other entries, which are few, are written as they come.
    """

    data_version: int  # of the connection, which changes when another one commits
    head: Head | None = None
    accounts: dict[str, AccountState] = field(default_factory=dict)  # with the totals and the parents of the last debit
    unsaved_totals: set[str] = field(default_factory=set)  # the accounts whose totals are still to be written
    unsaved_events: dict[tuple[str, bytes], int] = field(default_factory=dict)  # debits of an account's event, likewise
    unsaved_debits: list[EntryRow] = field(default_factory=list)  # likewise; their numbers follow one another
    unsaved_keys: set[str] = field(default_factory=set)  # the ids and measurements of those
    changes: int = 0  # how often something was added to these


@dataclass(frozen=True, slots=True)
class SqlTransaction:
    """A `Transaction` on these tables. One with a memory changes them by `append` and `save_totals` alone."""

    run: RunStatement
    location: str
    memory: Memory | None = None

    def read_head(self) -> Head:
        """As in `Transaction`."""
        if self.memory is not None and self.memory.head is not None:
            return self.memory.head
        row = self._fetch_one("SELECT number, hash FROM discreet_entries ORDER BY number DESC LIMIT 1")
        return Head(self._check_int(row[0]), self._check_bytes(row[1])) if row else Head(0, GENESIS)

    def append(self, entry: Entry) -> None:
        """As in `Transaction`."""
        body = encode(entry)
        link = compute_hash(body)
        row = (entry.number, *EntryKeys.of(entry), body, link)
        if self.memory is not None and isinstance(entry, Debit) and _is_number(entry.number):
            self.memory.changes += 1  # first, so that no failure halfway passes for none
            self.memory.unsaved_debits.append(row)
            self.memory.unsaved_keys.update((entry.id, entry.measurement))
        else:
            self.run(_INSERT_ENTRIES[1], row)
        if self.memory is not None:
            self.memory.head = Head(entry.number, link)
        match entry:
            case AccountOpened():
                root = None if entry.parent is None else self.read_root(entry.parent)
                self.run(
                    "INSERT INTO discreet_accounts (name, opened, spent, leaked, root) VALUES (?, ?, '0', '0', ?)",
                    (entry.account, entry.number, root or entry.account),
                )
            case Debit():
                self._count_event(entry.account, bytes(entry.encoded_event))
            case FailureRecorded():
                self._save_failures(entry.source, self.read_failures(entry.source).add_failure(entry.failure))
            case QuarantineLifted():
                self._save_failures(entry.source, FailureCounts())

    def save_totals(self, account: AccountState) -> None:
        """As in `Transaction`."""
        for each in account.lineage:
            if self.memory is None:
                self._write_totals(each)
            else:
                self.memory.accounts[each.name] = each
                self.memory.unsaved_totals.add(each.name)
                self.memory.changes += 1

    def flush(self) -> None:
        """Write what is only remembered."""
        if self.memory is None:
            return
        self._write_debits(self.memory)
        for name in self.memory.unsaved_totals:
            self._write_totals(self.memory.accounts[name])
        for (account, event), times in self.memory.unsaved_events.items():
            _count_event_again(self.run, account, event, times)
        self.memory.unsaved_totals.clear()
        self.memory.unsaved_events.clear()

    def _count_event(self, account: str, event: bytes) -> None:
        if self.memory is None:
            _count_event(self.run, account, event)
        else:
            events, key = self.memory.unsaved_events, (account, event)
            events[key] = events.get(key, 0) + 1
            self.memory.changes += 1

    def _write_totals(self, account: AccountState) -> None:
        spent, delta_spent = str(account.budget.spent), str(account.budget.delta_spent)
        self.run(
            "UPDATE discreet_accounts SET spent = ?, leaked = ?, debits = ?, whose = ? WHERE name = ?",
            (spent, delta_spent, account.debits, account.privacy_unit, account.name),
        )

    def _write_debits(self, memory: Memory) -> None:
        """Write the debits that are only remembered, in their order, by as few statements as `ROWS_AT_ONCE` allows."""
        rows, start = memory.unsaved_debits, 0
        for many in ROWS_AT_ONCE:
            while len(rows) - start >= many:
                values = rows[start] if many == 1 else tuple(chain.from_iterable(rows[start : start + many]))
                self.run(_INSERT_ENTRIES[many], values)
                start += many
        rows.clear()
        memory.unsaved_keys.clear()

    def _write_debits_with(self, key: str) -> None:
        """Write the debits before one is looked for by this id or measurement, if one of those that are only remembered may
        have it. Without one, the table alone answers as if they were in it."""
        if self.memory is not None and key in self.memory.unsaved_keys:
            self._write_debits(self.memory)

    def _write_debits_from(self, number: int) -> None:
        """Write the debits before an entry is looked for by this number, if one that is only remembered may have it."""
        if self.memory is not None and self.memory.unsaved_debits and number >= self.memory.unsaved_debits[0][0]:
            self._write_debits(self.memory)

    def find_entry(self, number: int) -> Entry | None:
        """As in `Transaction`."""
        self._write_debits_from(number)
        row = self._fetch_one("SELECT body FROM discreet_entries WHERE number = ?", number) if _is_number(number) else None
        return self._decode(decode, row[0]) if row else None

    def find_hash(self, number: int) -> bytes | None:
        """As in `Transaction`."""
        self._write_debits_from(number)
        row = self._fetch_one("SELECT hash FROM discreet_entries WHERE number = ?", number) if _is_number(number) else None
        return self._check_bytes(row[0]) if row else None

    def find_debit_by_id(self, account: str, id: str) -> Debit | None:
        """As in `Transaction`."""
        self._write_debits_with(id)
        row = self._fetch_one("SELECT body FROM discreet_entries WHERE account = ? AND id = ?", account, id)
        return self._decode(decode_debit, row[0]) if row else None

    def find_debit_by_measurement(self, account: str, measurement: str, *, in_family: bool = False) -> Debit | None:
        """As in `Transaction`."""
        self._write_debits_with(measurement)
        if self._fetch_one("SELECT 1 FROM discreet_entries WHERE measurement = ? LIMIT 1", measurement) is None:
            return None  # as for most, which are new; to rank those that are found takes longer
        row = self._fetch_one(
            f"SELECT body FROM discreet_entries WHERE measurement = ? AND {_IN_FAMILY if in_family else 'account = ?'} "
            "ORDER BY EXISTS (SELECT 1 FROM discreet_entries AS a WHERE a.debit = discreet_entries.number) DESC, "
            "account = ? DESC, number LIMIT 1",
            measurement,
            account,
            account,
        )
        return self._decode(decode_debit, row[0]) if row else None

    def find_answer(self, debit: int) -> bytes | None:
        """As in `Transaction`."""
        row = self._fetch_one("SELECT body FROM discreet_entries WHERE debit = ?", debit)
        entry = self._decode(decode, row[0]) if row else None
        return entry.answer if isinstance(entry, AnswerRecorded) else None

    def iter_entries(self, kind: str | None = None, *, after: int | None = None) -> Iterator[StoredEntry]:
        """As in `Transaction`, a batch at a time: a history of any length fits into memory."""
        self.flush()
        least = -(1 << 63), ">="  # the least number that the column can hold: planted entries are found, too
        last, order = least if after is None else (after, ">")
        of_kind, values = ("", ()) if kind is None else (" AND kind = ?", (kind,))
        while batch := self.run(
            f"SELECT {ENTRY_COLUMNS} FROM discreet_entries "
            f"WHERE number {order} ?{of_kind} ORDER BY number LIMIT {BATCH_ROWS}",
            (last, *values),
        ).fetchall():
            for number, *keys, body, link in batch:
                yield StoredEntry(number, self._check_bytes(body), self._check_bytes(link), EntryKeys(*keys))
            last, order = self._check_int(batch[-1][0]), ">"

    def list_account_names(self) -> tuple[str, ...]:
        """As in `Transaction`."""
        return tuple(row[0] for row in self.run("SELECT name FROM discreet_accounts ORDER BY opened", ()).fetchall())

    def read_accounts(self) -> tuple[AccountState, ...]:
        """As in `Transaction`, with one statement."""
        self.flush()
        found: dict[str, AccountState] = {}
        rows = self.run(
            "SELECT name, body, spent, leaked, debits, whose FROM discreet_accounts LEFT JOIN discreet_entries "
            "ON discreet_entries.number = discreet_accounts.opened ORDER BY opened",
            (),
        )
        for name, body, *totals in rows.fetchall():
            opened = self._check_opening(None if body is None else self._decode(decode, body), name)
            if opened.parent is not None and opened.parent not in found:
                raise LedgerCorrupted(self.location, f"account {name!r} has no parent that was opened before it")
            parent = None if opened.parent is None else found[opened.parent]
            found[name] = self._read_state(opened.to_account(parent), parent, totals)
        return tuple(found.values())

    def read_root(self, account: str) -> str | None:
        """As in `Transaction`."""
        row = self._fetch_one("SELECT root FROM discreet_accounts WHERE name = ?", account)
        return None if row is None else row[0]

    def read_opening(self, account: str) -> AccountOpened | None:
        """As in `Transaction`."""
        row = self._fetch_one("SELECT opened FROM discreet_accounts WHERE name = ?", account)
        return None if row is None else self._check_opening(self.find_entry(self._check_int(row[0])), account)

    def read_totals(self, account: AccountState) -> AccountState:
        """As in `Transaction`."""
        parent = None if account.parent is None else self.read_totals(account.parent)
        known = None if self.memory is None else self.memory.accounts.get(account.name)
        if known is None:
            select = "SELECT spent, leaked, debits, whose FROM discreet_accounts WHERE name = ?"
            row = self._fetch_one(select, account.name)
            if row is None:
                raise LedgerCorrupted(self.location, f"account {account.name!r} is missing")
            known = self._read_state(account, parent, row)
            if self.memory is not None:
                self.memory.accounts[account.name] = known
        elif known.parent is not parent or not _is_opened_as(known, account):
            budget = known.budget
            known = _add_totals(account, parent, budget.spent, budget.delta_spent, known.debits, known.privacy_unit)
        return known

    def _check_opening(self, entry: Entry | None, account: str) -> AccountOpened:
        if not isinstance(entry, AccountOpened) or entry.account != account:
            raise LedgerCorrupted(self.location, f"account {account!r} does not point at the entry that opened it")
        return entry

    def _read_state(self, account: AccountState, parent: AccountState | None, row: Sequence[Any]) -> AccountState:
        try:
            return _add_totals(account, parent, Fraction(row[0]), Fraction(row[1]), row[2], row[3])
        except (ValueError, TypeError, ZeroDivisionError):
            raise LedgerCorrupted(self.location, f"the totals of account {account.name!r} are no numbers") from None

    def read_event_counts(self, account: str, limit: int | None = None) -> dict[bytes, int]:
        """As in `Transaction`."""
        self.flush()
        at_most = "" if limit is None else f" LIMIT {limit}"
        rows = self.run(
            f"SELECT hash, facts, times FROM discreet_facts WHERE account = ? ORDER BY hash{at_most}", (account,)
        )
        found: dict[bytes, int] = {}
        for key, event, times in rows.fetchall():
            found[self._check_bytes(event)] = self._check_int(times)
            if self._check_bytes(key) != compute_hash(bytes(event)):
                raise LedgerCorrupted(self.location, "the key of an event is not the hash of the event")
        return found

    def read_failures(self, source: str) -> FailureCounts:
        """As in `Transaction`."""
        row = self._fetch_one(
            "SELECT decoding, resource FROM discreet_sources WHERE hash = ?", compute_hash(source.encode())
        )
        return FailureCounts() if row is None else FailureCounts(self._check_int(row[0]), self._check_int(row[1]))

    def list_failures(self) -> dict[str, FailureCounts]:
        """As in `Transaction`."""
        found: dict[str, FailureCounts] = {}
        rows = self.run("SELECT hash, source, decoding, resource FROM discreet_sources", ()).fetchall()
        for key, source, decoding, resource in rows:
            if self._check_bytes(key) != compute_hash(str(source).encode()):
                raise LedgerCorrupted(self.location, "a source's key is not the hash of the source")
            found[source] = FailureCounts(self._check_int(decoding), self._check_int(resource))
        return found

    def _save_failures(self, source: str, counts: FailureCounts) -> None:
        self.run(
            "INSERT INTO discreet_sources (hash, source, decoding, resource) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (hash) DO UPDATE SET decoding = excluded.decoding, resource = excluded.resource",
            (compute_hash(source.encode()), source, counts.decoding, counts.resource),
        )

    def _fetch_one(self, sql: str, *values: Any) -> Any:
        return self.run(sql, values).fetchone()

    def _decode(self, decoder: Callable[[bytes], Decoded], cell: Any) -> Decoded:
        try:
            return decoder(self._check_bytes(cell))
        except BadEventEncoding as wrong:
            raise LedgerCorrupted(self.location, str(wrong)) from None

    def _check_bytes(self, cell: Any) -> bytes:
        if not isinstance(cell, bytes | memoryview):
            raise LedgerCorrupted(self.location, "a column that holds bytes holds something else")
        return bytes(cell)

    def _check_int(self, cell: Any) -> int:
        if not isinstance(cell, int):
            raise LedgerCorrupted(self.location, "a column that holds integers holds something else")
        return cell


def _add_totals(
    account: AccountState, parent: AccountState | None, spent: Fraction, delta_spent: Fraction, debits: int, unit: str
) -> AccountState:
    """Return an account as it was opened, with these parents and these totals."""
    budget = account.budget
    after = Filter(budget.currency, budget.limit, budget.delta_limit, spent, delta_spent)
    return AccountState(account.name, after, account.delta, parent, debits, unit, account.own_split)


def _is_opened_as(known: AccountState, account: AccountState) -> bool:
    """Whether an account that is remembered holds the very limits of this one: a charge keeps them, so no other account of
    this name has them. Then the two differ in their totals and parents alone."""
    budget, opened = known.budget, account.budget
    return (
        budget.limit is opened.limit
        and budget.delta_limit is opened.delta_limit
        and budget.currency is opened.currency
        and known.delta is account.delta
        and known.own_split is account.own_split
    )


def _is_number(number: int) -> bool:
    """Whether an entry can have this number: one beyond 64 bits would make the driver fail."""
    return 0 < number < 1 << 63


# -- waiting for another process -------------------------------------------------------------------------------------------

ledger_log = logging.getLogger("discreet.ledger")


def report_waiting(location: str) -> None:
    """Say that another process holds the ledger."""
    ledger_log.warning("waiting for another process that is writing to the ledger %s …", location)


def locked_ledger_error(location: str, seconds: int) -> LedgerUnavailable:
    """Return the error of a ledger that other processes held for so long."""
    reason = f"other processes kept it locked for {seconds} seconds"
    return LedgerUnavailable(location, reason, "wait until they are done or end them, then ask again with the same id")
