"""The tables of a ledger, version by version. A ledger of an older version is brought up to date when it is opened.

`{key}` and `{bytes}` are what the two databases call differently. Totals stand beside the entries so that neither opening an
account nor its report adds up a history; `check` adds it up and compares.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from discreet.errors import LedgerCorrupted, LedgerUnavailable
from discreet.ledger.entry import compute_hash, read_event_bytes

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
