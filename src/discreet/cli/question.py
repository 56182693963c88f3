"""What `discreet ask` and `discreet quote` have in common: a source, a question, and a budget just large enough for it."""

import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import date, datetime
from fractions import Fraction
from typing import Any

from discreet.cli.output import number
from discreet.errors import BadParameter
from discreet.exact import rational
from discreet.ledger.memory import MemoryAccount, budget
from discreet.query.table import Column, Key, Kind, Table
from discreet.session import Session, declare
from discreet.units import Neighbours


@dataclass(frozen=True, slots=True)
class Question:
    """A question as typed."""

    source: str
    sql: str
    unit: str | None
    epsilon: str | None
    error: str | None
    size: int | None
    delta: str
    policy: str | None
    keys: list[str]
    max_groups: int | None
    max_rows: int | None
    unique: bool
    bounds: list[str]
    table: str | None

    def open(self, confidence: float) -> tuple[Session, Fraction]:
        """The session, whose whole budget is the question's price, and that price."""
        if (self.epsilon is None) == (self.error is None):
            raise BadParameter("price", "unclear", "a question has either a price or an error", "give --epsilon or --error")
        epsilon, delta = None if self.epsilon is None else number(self.epsilon, "epsilon"), number(self.delta, "delta")
        kept = budget(1 if epsilon is None else epsilon, delta)
        limits = dict(_bound(text) for text in self.bounds)
        (engine, table), notes = declare(
            self.source, unit=self.unit, policy=self.policy, table=self.table, bounds=limits, max_groups=self.max_groups,
            max_rows=self.max_rows, unique=self.unique or None,
        )  # fmt: skip
        declared = with_keys(table, self.keys)
        session = Session(engine, declared, MemoryAccount(kept), rational(delta), Neighbours.ADD_REMOVE, notes)
        if epsilon is not None:
            return session, epsilon
        assert self.error is not None
        epsilon = session.epsilon_for(self.sql, self.error, size=self.size, confidence=confidence)
        return replace(session, account=MemoryAccount(budget(epsilon, delta))), epsilon


def waiting(what: str) -> AbstractContextManager[Any]:
    """A sign of life on stderr while a person waits; nothing where nobody looks."""
    if not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console

    return Console(stderr=True).status(what)


def with_keys(table: Table, texts: list[str]) -> Table:
    """The same table with the keys that were typed, each read as what its column holds."""
    columns = dict(table.columns)
    for text in texts:
        name, equals, listed = text.partition("=")
        if not equals or name not in columns:
            raise BadParameter("--keys", repr(text), "not a column and its keys", "write --keys dept=a,b,c")
        columns[name] = columns[name].shown_as(tuple(_key(part, columns[name]) for part in listed.split(",")))
    return replace(table, columns=columns)


def _key(text: str, column: Column) -> Key:
    try:
        match column.kind:
            case Kind.INTEGER:
                return int(text)
            case Kind.BOOLEAN:
                return {"true": True, "false": False}[text.strip().lower()]
            case Kind.DATE:
                return date.fromisoformat(text)
            case Kind.TIMESTAMP:
                return datetime.fromisoformat(text)
            case Kind.TEXT | Kind.REAL:
                return text
    except (ValueError, KeyError):
        raise BadParameter(
            "--keys", repr(text), f"not a {column.kind.value}", "write keys as the column holds them"
        ) from None


def _bound(text: str) -> tuple[str, tuple[Fraction, Fraction]]:
    name, equals, ends = text.rpartition("=")
    low, colon, high = ends.partition(":")
    if not equals or not colon:
        raise BadParameter("--bounds", repr(text), "not a column and two bounds", "write --bounds pay=0:200")
    return name, (number(low, "bounds"), number(high, "bounds"))
