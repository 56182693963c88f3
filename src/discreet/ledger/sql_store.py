"""The tables of a ledger inside one transaction: reading and appending, and no rule."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, TypeAlias, TypeVar

from discreet.errors import BadEventEncoding, LedgerCorrupted, LedgerUnavailable
from discreet.ledger.account import AccountState
from discreet.ledger.entries import (
    GENESIS,
    AccountOpened,
    AnswerRecorded,
    Debit,
    Entry,
    FailureRecorded,
    KeyRotated,
    QuarantineLifted,
    compute_hash,
    decode,
    decode_debit,
    encode,
    read_event_bytes,
)
from discreet.ledger.failures import FailureCounts

# The tables of a ledger, version by version. A ledger of an older version is brought up to date when it is opened.
#
# `{key}` and `{bytes}` are what the two databases call differently. Totals stand beside the entries so that neither
# opening an
# account nor its report adds up a history; `check` adds it up and compares.


RunStatement: TypeAlias = Callable[[str, tuple[Any, ...]], Any]
"""One statement with its values; returns a cursor."""

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
        # Version 2 counts the debits of each account, and how often each of its facts occurs.
        "ALTER TABLE discreet_accounts ADD COLUMN debits BIGINT NOT NULL DEFAULT 0",
        "UPDATE discreet_accounts SET debits = (SELECT COUNT(*) FROM discreet_entries "
        "WHERE kind = 'debit' AND account = discreet_accounts.name)",
        "CREATE TABLE discreet_facts (account TEXT NOT NULL, hash {bytes} NOT NULL, facts {bytes} NOT NULL, "
        "times BIGINT NOT NULL, PRIMARY KEY (account, hash))",
    ),
    (
        # Version 3 keeps whose rows an account speaks of. The entries of an older one do not say: its next debit does.
        "ALTER TABLE discreet_accounts ADD COLUMN whose TEXT NOT NULL DEFAULT ''",
    ),
    (
        # Version 4 counts the failures of each source. A source may be longer than an index allows, so its hash is the key.
        "CREATE TABLE discreet_sources (hash {bytes} PRIMARY KEY, source TEXT NOT NULL, decoding BIGINT NOT NULL, "
        "resource BIGINT NOT NULL)",
    ),
)
"""What each version adds to the one before it."""

LATEST_VERSION = len(MIGRATIONS)


def upgrade(run: RunStatement, location: str, *, key: str, bytes: str, create: bool) -> None:
    """Bring the tables to the newest version, inside the caller's transaction."""
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
    run(f"UPDATE discreet_schema SET version = {LATEST_VERSION}", ())


def count_event(run: RunStatement, account: str, event: bytes) -> None:
    """Count one more debit with these facts."""
    run(
        "INSERT INTO discreet_facts (account, hash, facts, times) VALUES (?, ?, ?, 1) "
        "ON CONFLICT (account, hash) DO UPDATE SET times = discreet_facts.times + 1",
        (account, compute_hash(event), event),
    )


def _count_existing_events(run: RunStatement) -> None:
    """Count what version 1 did not."""
    last = -1
    debits = (
        "SELECT number, account, body FROM discreet_entries WHERE kind = 'debit' AND number > ? ORDER BY number LIMIT 1000"
    )
    while batch := run(debits, (last,)).fetchall():
        for _, account, body in batch:
            count_event(run, account, read_event_bytes(bytes(body)))
        last = batch[-1][0]


def check_version(row: Any, location: str) -> int:
    """The schema's version. What a later one wrote is refused: to ignore part of it is to misjudge it."""
    version = row[0] if row else None
    if not isinstance(version, int) or version < 0:
        raise LedgerCorrupted(location, "its schema has no version")
    if version > LATEST_VERSION:
        raise LedgerUnavailable(
            location, f"it has schema version {version} and this is {LATEST_VERSION}", "use a newer discreet"
        )
    return version


def missing_ledger_error(location: str) -> LedgerUnavailable:
    """There is no ledger at this place."""
    return LedgerUnavailable(location, "there is no ledger here", "discreet ledger open makes one")


Kind = TypeVar("Kind")
BATCH_ROWS = 1000
"""How many entries are fetched at a time."""


@dataclass(frozen=True, slots=True)
class StoredEntry:
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
class Transaction:
    """One transaction's view."""

    run: RunStatement
    location: str

    def read_last(self) -> tuple[int, bytes]:
        """Number and hash of the last entry; 0 and the genesis hash if there is none."""
        row = self._fetch_one("SELECT number, hash FROM discreet_entries ORDER BY number DESC LIMIT 1")
        return (self._check_int(row[0]), self._check_bytes(row[1])) if row else (0, GENESIS)

    def append(self, entry: Entry) -> bytes:
        """Write the entry and return its hash. Its number and its link are the caller's to get right."""
        body = encode(entry)
        link = compute_hash(body)
        self.run(
            "INSERT INTO discreet_entries (number, kind, account, id, measurement, debit, body, hash) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (entry.number, *to_columns(entry), body, link),
        )
        return link

    def read_account(self, name: str) -> AccountState | None:
        """An account with its totals, and its parents with theirs."""
        opened = self.read_opening(name)
        if opened is None:
            return None
        above = None if opened.parent is None else self.read_account(opened.parent)
        return self.read_totals(opened.to_account(above))

    def read_opening(self, name: str) -> AccountOpened | None:
        """The entry that opened an account."""
        row = self._fetch_one("SELECT opened FROM discreet_accounts WHERE name = ?", name)
        if row is None:
            return None
        opened = self.find_entry(row[0])
        if not isinstance(opened, AccountOpened) or opened.account != name:
            raise LedgerCorrupted(self.location, f"account {name!r} does not point at the entry that opened it")
        return opened

    def read_totals(self, account: AccountState) -> AccountState:
        """The same account and its parents with their totals of now."""
        row = self._fetch_one("SELECT spent, leaked, debits, whose FROM discreet_accounts WHERE name = ?", account.name)
        if row is None:
            raise LedgerCorrupted(self.location, f"account {account.name!r} is gone")
        above = None if account.parent is None else self.read_totals(account.parent)
        try:
            return apply_totals(replace(account, parent=above), row)
        except (ValueError, TypeError, ZeroDivisionError):
            raise LedgerCorrupted(self.location, f"the totals of account {account.name!r} are no numbers") from None

    def list_account_names(self) -> tuple[str, ...]:
        """Every account, in the order of opening."""
        return tuple(row[0] for row in self.run("SELECT name FROM discreet_accounts ORDER BY opened", ()).fetchall())

    def add_account(self, name: str, opened: int) -> None:
        """A new account with nothing spent."""
        self.run("INSERT INTO discreet_accounts (name, opened, spent, leaked) VALUES (?, ?, '0', '0')", (name, opened))

    def save_totals(self, account: AccountState) -> None:
        """Write the totals of an account and its parents."""
        for each in account.lineage:
            self.run(
                "UPDATE discreet_accounts SET spent = ?, leaked = ?, debits = ?, whose = ? WHERE name = ?",
                (str(each.budget.spent), str(each.budget.delta_spent), each.debits, each.privacy_unit, each.name),
            )

    def find_debit_by_id(self, account: str, id: str) -> Debit | None:
        """The debit with this id."""
        return self._find_debit("account = ? AND id = ?", account, id)

    def find_debit_by_measurement(self, account: str, measurement: str) -> Debit | None:
        """The first debit of this measurement that has an answer; else the first one."""
        answered = "EXISTS (SELECT 1 FROM discreet_entries AS a WHERE a.debit = discreet_entries.number)"
        return self._find_debit(
            f"account = ? AND measurement = ? ORDER BY {answered} DESC, number LIMIT 1", account, measurement
        )

    def find_entry(self, number: int) -> Entry | None:
        """The entry with this number."""
        row = self._fetch_one("SELECT body FROM discreet_entries WHERE number = ?", number)
        return self._decode_entry(self._check_bytes(row[0])) if row else None

    def read_body(self, number: int) -> bytes:
        """The bytes of an entry that is there."""
        return self._check_bytes(self._fetch_one("SELECT body FROM discreet_entries WHERE number = ?", number)[0])

    def find_hash(self, number: int) -> bytes | None:
        """The hash of the entry with this number, if there can be one."""
        known = 0 < number < 1 << 63
        row = self._fetch_one("SELECT hash FROM discreet_entries WHERE number = ?", number) if known else None
        return self._check_bytes(row[0]) if row else None

    def find_answer(self, debit: int) -> bytes | None:
        """What was released for a debit."""
        row = self._fetch_one("SELECT body FROM discreet_entries WHERE debit = ?", debit)
        entry = self._decode_entry(self._check_bytes(row[0])) if row else None
        return entry.answer if isinstance(entry, AnswerRecorded) else None

    def iter_entries(self) -> Iterator[StoredEntry]:
        """Every entry, in order, a batch at a time: no history is too long to hold."""
        last = -(1 << 63)  # a number that no entry should have is still an entry: whoever planted it is found by the chain
        columns = "number, kind, account, id, measurement, debit, body, hash"
        order = ">="
        while batch := self.run(
            f"SELECT {columns} FROM discreet_entries WHERE number {order} ? ORDER BY number LIMIT {BATCH_ROWS}", (last,)
        ).fetchall():
            for number, kind, account, id, measurement, debit, body, link in batch:
                yield StoredEntry(
                    number, kind, account, id, measurement, debit, self._check_bytes(body), self._check_bytes(link)
                )
            last, order = self._check_int(batch[-1][0]), ">"

    def read_event_counts(self, account: str, limit: int | None = None) -> dict[bytes, int]:
        """The facts of an account's debits and how often each occurs: all of them, or so many."""
        limit_clause = "" if limit is None else f" LIMIT {limit}"
        found = self.run(
            f"SELECT facts, times FROM discreet_facts WHERE account = ? ORDER BY hash{limit_clause}", (account,)
        )
        return {self._check_bytes(facts): self._check_int(times) for facts, times in found.fetchall()}

    def count_event(self, account: str, event: bytes) -> None:
        """Count one more debit with these facts."""
        count_event(self.run, account, event)

    def read_failures(self, source: str) -> FailureCounts:
        """The failures that are counted for a source."""
        row = self._fetch_one(
            "SELECT decoding, resource FROM discreet_sources WHERE hash = ?", compute_hash(source.encode())
        )
        return FailureCounts() if row is None else FailureCounts(self._check_int(row[0]), self._check_int(row[1]))

    def list_sources(self) -> dict[str, FailureCounts]:
        """Every source for which a failure was ever recorded, with its counts."""
        found: dict[str, FailureCounts] = {}
        rows = self.run("SELECT hash, source, decoding, resource FROM discreet_sources", ()).fetchall()
        for key, source, decoding, resource in rows:
            if self._check_bytes(key) != compute_hash(str(source).encode()):
                raise LedgerCorrupted(self.location, "a source's key is not the hash of the source")
            found[source] = FailureCounts(self._check_int(decoding), self._check_int(resource))
        return found

    def save_failures(self, source: str, counts: FailureCounts) -> None:
        """Write the counts of a source."""
        self.run(
            "INSERT INTO discreet_sources (hash, source, decoding, resource) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (hash) DO UPDATE SET decoding = excluded.decoding, resource = excluded.resource",
            (compute_hash(source.encode()), source, counts.decoding, counts.resource),
        )

    def list_rotations(self) -> tuple[KeyRotated, ...]:
        """Every rotation of the ledger's key."""
        rows = self.run("SELECT body FROM discreet_entries WHERE kind = 'rotate' ORDER BY number", ()).fetchall()
        found = (self._decode_entry(self._check_bytes(body)) for (body,) in rows)
        return tuple(entry for entry in found if isinstance(entry, KeyRotated))

    def _find_debit(self, condition: str, *values: Any) -> Debit | None:
        row = self._fetch_one(f"SELECT body FROM discreet_entries WHERE {condition}", *values)
        return self._decode_debit(self._check_bytes(row[0])) if row else None

    def _fetch_one(self, sql: str, *values: Any) -> Any:
        return self.run(sql, values).fetchone()

    def _decode_entry(self, body: bytes) -> Entry:
        return self._decode_with(decode, body)

    def _decode_debit(self, body: bytes) -> Debit:
        return self._decode_with(decode_debit, body)

    def _decode_with(self, decoder: Callable[[bytes], Kind], body: bytes) -> Kind:
        try:
            return decoder(body)
        except BadEventEncoding as wrong:
            raise LedgerCorrupted(self.location, str(wrong)) from None

    def _check_bytes(self, cell: Any) -> bytes:
        if not isinstance(cell, bytes | memoryview):
            raise LedgerCorrupted(self.location, "an entry's bytes are something else")
        return bytes(cell)

    def _check_int(self, cell: Any) -> int:
        if not isinstance(cell, int):
            raise LedgerCorrupted(self.location, "an entry's number is something else")
        return cell


def to_columns(entry: Entry) -> tuple[str, str, str | None, str | None, int | None]:
    """What stands in the columns beside an entry's bytes: kind, account, id, measurement, debit."""
    match entry:
        case AccountOpened():
            return "open", entry.account, None, None, None
        case Debit():
            return "debit", entry.account, entry.id, entry.measurement, None
        case AnswerRecorded():
            return "answer", entry.account, None, None, entry.debit
        case FailureRecorded():
            return "failure", "", None, None, None
        case QuarantineLifted():
            return "lift", "", None, None, None
        case KeyRotated():
            return "rotate", "", None, None, None


def apply_totals(account: AccountState, row: Any) -> AccountState:
    """The account with the totals that are stored for it."""
    spent, leaked, debits, whose = row
    kept = replace(account.budget, spent=Fraction(spent), delta_spent=Fraction(leaked))
    return replace(account, budget=kept, debits=debits, privacy_unit=whose)
