"""What `discreet ask` and `discreet quote` have in common: a source, a question, and a budget just large enough for it."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, datetime
from fractions import Fraction
from typing import Any

from discreet._numbers import to_rational
from discreet.accounting.currencies import parse_currency
from discreet.cli.output import parse_number
from discreet.errors import BadParameter
from discreet.ledger.memory import MemoryAccount, create_budget
from discreet.query.schema import Column, Key, Kind, Table
from discreet.session.connect import open_account
from discreet.session.session import Session
from discreet.session.source import AUTO, Source, open_source
from discreet.units import Neighbours


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryArguments:
    """A question as typed."""

    source: str
    sql: str
    unit: str | None
    epsilon: str | None
    error: str | None
    size: int | None
    delta: str
    policy: str | None
    keys: list[str] | None
    max_groups: int | None
    max_rows: int | None
    unique: bool
    bounds: list[str] | None
    table: str | None
    public: list[str] | None
    weight: list[str] | None
    currency: str | None
    neighbours: str
    path: str | None = None
    pilot: str | None = None
    budget: str | None = None
    ledger: str | None = None
    account: str | None = None
    label: str | None = None

    @property
    def cost_arguments(self) -> dict[str, Any]:
        """What `Session.ask` and `Session.quote` take as the price: ε, or an error and what it is relative to."""
        if (self.epsilon is None) == (self.error is None):
            raise BadParameter("price", "unclear", "a question has either a price or an error", "give --epsilon or --error")
        given = {"size": self.size, "weights": dict(_parse_weight(text) for text in self.weight) if self.weight else None}
        if self.epsilon is not None:
            return given | {"epsilon": parse_number(self.epsilon, "epsilon")}
        return given | {"error": self.error}

    def open_session(self, confidence: float) -> tuple[Session, dict[str, Any]]:
        """The session and the price. Its whole budget is --budget, or just what the question costs."""
        price, delta = self.cost_arguments, parse_number(self.delta, "delta")
        if self.ledger is not None or self.account is not None:
            return self._open_from_ledger(price, delta)
        if self.pilot is not None and self.budget is None:
            raise BadParameter(
                "--pilot", self.pilot, "what the question costs then depends on an answer", "fix --budget beforehand"
            )
        limit = price.get("epsilon") if self.budget is None else parse_number(self.budget, "budget")
        currency = None if self.currency is None else parse_currency(self.currency)
        account = MemoryAccount(create_budget(1 if limit is None else limit, delta, currency))
        session = Session.of(self._open_source(), account, to_rational(delta), Neighbours.parse(self.neighbours), self.label)
        if self.pilot is not None:
            return session, price | {"pilot": parse_number(self.pilot, "pilot")}
        if limit is not None:
            return session, price
        epsilon = session.find_epsilon(self.sql, confidence=confidence, **price)
        return replace(session, account=MemoryAccount(create_budget(epsilon, delta, currency))), price

    def _open_from_ledger(self, price: dict[str, Any], delta: Fraction) -> tuple[Session, dict[str, Any]]:
        """The session whose budget is an account of a ledger."""
        given = None if self.budget is None else parse_number(self.budget, "budget")
        purse, failing = open_account(
            given, delta, None if self.currency is None else parse_currency(self.currency), self.ledger, self.account
        )
        session = Session.of(self._open_source(), purse, failing, Neighbours.parse(self.neighbours), self.label)
        return session, price if self.pilot is None else price | {"pilot": parse_number(self.pilot, "pilot")}

    def _open_source(self) -> Source:
        declared = open_source(
            self.source, unit=self.unit, policy=self.policy, table=self.table, path=self.path,
            bounds=dict(_parse_bounds(text) for text in self.bounds or ()), max_groups=self.max_groups,
            max_rows=self.max_rows,
            unique=self.unique or None, public=dict(_parse_public(text) for text in self.public or ()),
        )  # fmt: skip
        return replace(declared, table=declare_keys(declared.table, self.keys or []))


@contextmanager
def show_progress(what: str) -> Iterator[Callable[[float], None] | None]:
    """A bar on stderr while a person waits, and who is to be told how far it is; nothing where nobody looks."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)  # it pulses until the engine says how far it is
        yield lambda share: bar.update(task, total=1.0, completed=share)


def declare_keys(table: Table, texts: list[str]) -> Table:
    """The same table with the keys that were typed, each read as what its column holds."""
    columns = dict(table.columns)
    for text in texts:
        name, equals, listed = text.partition("=")
        if not equals or name not in columns:
            raise BadParameter("--keys", repr(text), "not a column and its keys", "write --keys dept=a,b,c")
        columns[name] = columns[name].with_keys(tuple(_parse_key(part, columns[name]) for part in listed.split(",")))
    return replace(table, columns=columns)


def _parse_key(text: str, column: Column) -> Key:
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


def _parse_weight(text: str) -> tuple[str, Fraction]:
    name, equals, weight = text.rpartition("=")
    if not equals:
        raise BadParameter("--weight", repr(text), "not a column and its weight", "write --weight n=2")
    return name, parse_number(weight, "weight")


def _parse_public(text: str) -> tuple[str, str]:
    name, equals, source = text.partition("=")
    if not name or not equals or not source:
        raise BadParameter("--public", repr(text), "not a name and a source", "write --public cities=cities.csv")
    return name, source


def _parse_bounds(text: str) -> tuple[str, tuple[Fraction, Fraction] | str]:
    name, equals, ends = text.rpartition("=")
    if equals and ends == AUTO:
        return name, AUTO
    low, colon, high = ends.partition(":")
    if not equals or not colon:
        raise BadParameter(
            "--bounds", repr(text), "not a column and two bounds", "write --bounds pay=0:200, or --bounds pay=auto"
        )
    return name, (parse_number(low, "bounds"), parse_number(high, "bounds"))
