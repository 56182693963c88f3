"""The audit trail: who did what and when, as a hash chain.

Each line holds the hash of the line before it, so a line that is changed, removed or inserted later is found by `check`.
What `check` cannot find alone is a trail that was cut off or rewritten to its end: for that, a steward keeps a head
elsewhere (`head`, exported beside the ledger's) and gives it to `check`. The owner of the machine can rewrite the trail, but
a steward who kept a head sees it.

A line names people, tables and ids. It holds no question, no answer and no secret.
"""

import hashlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from discreet.serve.control.database import Transaction
from discreet.serve.control.errors import TrailBroken
from discreet.serve.control.model import TrailEntry

if TYPE_CHECKING:
    from discreet.serve.control.base import Page, Part

GENESIS = ""
"""What stands for the hash before the first line."""
_BATCH = 1000


class Line(NamedTuple):
    """A line that is not written yet."""

    actor: str
    action: str
    subject: str
    details: dict[str, Any]


class _Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the hash of a line covers."""

    number: int
    at: float
    actor: str
    action: str
    subject: str
    details: dict[str, Any]
    previous: str


class TrailHead(msgspec.Struct, frozen=True):
    """The last line: its number (0 if there is none) and its hash. Kept elsewhere, it shows a rewritten trail."""

    number: int
    hash: str


def append_lines(transaction: Transaction, lines: Iterable[Line], at: float) -> list[TrailEntry]:
    """Append lines, inside the caller's transaction and as its last step: the head is locked until the commit."""
    entries: list[TrailEntry] = []
    for line in lines:
        if not entries:
            row = transaction.run("SELECT number, hash FROM control_trail_head{lock}").fetchone()
            number, previous = int(row[0]), str(row[1])
        number += 1
        body = _Body(number, at, line.actor, line.action, line.subject, line.details, previous)
        text = msgspec.json.encode(body, order="deterministic").decode()
        hashed = hash_body(text)
        transaction.run(
            "INSERT INTO control_trail (number, seen, actor, action, subject, body, hash) VALUES (?, ?, ?, ?, ?, ?, ?)",
            number, at, line.actor, line.action, line.subject, text, hashed,
        )  # fmt: skip
        entries.append(_to_entry(body, hashed))
        previous = hashed
    if entries:
        transaction.run("UPDATE control_trail_head SET number = ?, hash = ?", entries[-1].number, entries[-1].hash)
    return entries


def hash_body(text: str) -> str:
    """Return the hash of a line, which covers the hash of the line before it."""
    return hashlib.sha256(b"discreet trail\0" + text.encode()).hexdigest()


def _to_entry(body: _Body, hashed: str) -> TrailEntry:
    return TrailEntry(
        number=body.number, at=body.at, actor=body.actor, action=body.action, subject=body.subject, details=body.details,
        previous=body.previous, hash=hashed,
    )  # fmt: skip


def _read_entry(text: str, hashed: str) -> TrailEntry:
    return _to_entry(msgspec.json.decode(text, type=_Body), hashed)


class Trail:
    """The audit trail of a control database."""

    def __init__(self, part: "Part") -> None:
        self._part = part

    def append(self, actor: str, action: str, subject: str, details: dict[str, Any] | None = None) -> None:
        """Append a line; inside `Control.transaction()`, together with what it records."""
        with self._part._write() as transaction:
            transaction.lines.append(Line(actor, action, subject, details or {}))

    def head(self) -> TrailHead:
        """Return the last line's number and hash, to be kept elsewhere."""
        with self._part._read() as transaction:
            row = transaction.run("SELECT number, hash FROM control_trail_head").fetchone()
        return TrailHead(int(row[0]), str(row[1]))

    def list(
        self, *, actor: str | None = None, subject: str | None = None, cursor: str | None = None, limit: int = 50
    ) -> "Page[TrailEntry]":
        """Return the newest lines, by one person or about one subject."""
        return self._part._page(
            TrailEntry, "control_trail", {"actor": actor, "subject": subject}, cursor, limit, "body, hash", _read_entry
        )

    def check(self, head: TrailHead | None = None) -> int:
        """Check every line against the line before it, and the head that was kept if one is given. Returns their number.

        Raises:
            TrailBroken: naming the first line that is wrong.
        """
        with self._part._read() as transaction:
            return _check(transaction, head)


def _check(transaction: Transaction, kept: TrailHead | None) -> int:
    number, previous, is_kept = 0, GENESIS, kept is None or kept.number == 0
    for row in _read_rows(transaction):
        found, at, actor, action, subject, text, hashed = row
        if found != number + 1:
            raise TrailBroken(number + 1, "it is missing")
        if hash_body(text) != hashed:
            raise TrailBroken(found, "its text does not have its hash")
        body = msgspec.json.decode(text, type=_Body)
        if (body.number, body.at, body.actor, body.action, body.subject) != (found, at, actor, action, subject):
            raise TrailBroken(found, "its columns differ from its text")
        if body.previous != previous:
            raise TrailBroken(found, "it does not continue the line before it")
        number, previous = found, hashed
        if kept is not None and kept.number == number:
            if kept.hash != hashed:
                raise TrailBroken(number, "it is not the line whose hash was kept")
            is_kept = True
    row = transaction.run("SELECT number, hash FROM control_trail_head").fetchone()
    if row is None or (int(row[0]), str(row[1])) != (number, previous):
        raise TrailBroken(number + 1, "the trail ends before its head")
    if not is_kept:
        raise TrailBroken(number + 1, "the trail ends before the head that was kept")
    return number


def _read_rows(transaction: Transaction) -> Iterator[Any]:
    last = -1
    sql = (
        "SELECT number, seen, actor, action, subject, body, hash FROM control_trail WHERE number > ? ORDER BY number LIMIT "
        f"{_BATCH}"
    )
    while rows := transaction.run(sql, last).fetchall():
        yield from rows
        last = rows[-1][0]
