"""What is to be published, of which source, how accurate, for how much."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

from discreet.accounting.filters import Currency, Pure
from discreet.accuracy import read_error
from discreet.declare import Declared, Limits, declare
from discreet.errors import BadParameter, SourceRefused
from discreet.exact import Number, read_decimal, read_positive
from discreet.ledger.memory import MemoryAccount, budget
from discreet.mechanisms.quantile import confident
from discreet.opening import purse_of
from discreet.publisher.refusals import under
from discreet.query.currency import named
from discreet.query.parse import Question
from discreet.query.quote import sized
from discreet.query.table import Key, Table
from discreet.session import Session
from discreet.units import Neighbours

Error: TypeAlias = str | Number
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,59}")
MOST_QUESTIONS = 1_000
MOST_WEIGHT = Fraction(10**9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One question of a workload.

    `error` is the half-width that every column may have, or one for each column by name; a column without one shares what
    is left of the budget, by `weight`. `size` is how many rows a group has, or a list with one number per group: known or
    guessed, never read off the data. A percentage is relative to the smallest of them.
    """

    name: str
    sql: Question
    error: Error | Mapping[str, Error] | None = None
    size: int | Sequence[int] | None = None
    weight: Number = 1

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name):
            raise BadParameter(
                "name", repr(self.name), "it names files", "take up to 60 letters, digits, - and _, a letter or digit first"
            )
        with under(self.key()):
            if not 1 / MOST_WEIGHT <= read_positive(self.weight, "weight") <= MOST_WEIGHT:
                raise BadParameter("weight", self.weight, "not between 10^-9 and 10^9", "1, 2, 3 say who gets more")
            wanted = self.error.values() if isinstance(self.error, Mapping) else [self.error]
            for error in wanted:
                if error is not None:
                    read_error(error)
            for size in self.sizes:
                sized(size)

    def key(self, part: str = "") -> str:
        """Where this stands in the plan."""
        return f"questions.{self.name}" + (f".{part}" if part else "")

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes that are given."""
        if self.size is None:
            return ()
        if isinstance(self.size, str | bytes) or not isinstance(self.size, Sequence | int):
            raise BadParameter("size", repr(self.size), "not a number of rows", "give 1000, or a list with one per group")
        return (self.size,) if isinstance(self.size, int) else tuple(self.size)

    def wanted(self, column: str) -> Error | None:
        """The error that a column may have."""
        return self.error.get(column) if isinstance(self.error, Mapping) else self.error


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One source, several questions, one budget.

    `epsilon` and `delta` are the most that the whole may cost. Without a ledger the plan is charged at a point of its
    certified curve, ε at this δ; with one, in the currency of the account, which has its own δ unless it is a pure one.

    >>> everybody = Asked(name="all", sql="SELECT COUNT(*) AS n FROM people", error=20)
    >>> Workload(source="people.csv", unit="id", epsilon=1, questions=(everybody, everybody))
    Traceback (most recent call last):
    discreet.errors.BadParameter: questions.all is given twice: a name names files; take another
    """

    source: Any
    questions: tuple[Asked, ...]
    epsilon: Number
    delta: Number = 0
    currency: Currency | str | None = None
    ledger: str | PathLike[str] | None = None
    account: str | None = None
    id: str | None = None
    title: str = ""
    confidence: Number = 0.95
    unit: str | None = None
    policy: str | Path | Table | None = None
    table: str | None = None
    path: str | Path | None = None
    bounds: Limits | None = None
    keys: Mapping[str, Sequence[Key]] | None = None
    public: Mapping[str, Any] | None = None
    max_groups: int | None = None
    max_rows: int | None = None
    unique: bool | None = None
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE
    label: str | None = None  # which state of the source is published
    text: str = field(default="", repr=False)  # the plan.toml that it was read from

    def __post_init__(self) -> None:
        if not self.questions or len(self.questions) > MOST_QUESTIONS:
            raise BadParameter("questions", len(self.questions), "there is nothing to publish, or too much",
                               f"ask 1 to {MOST_QUESTIONS:,}")  # fmt: skip
        seen: set[str] = set()
        for asked in self.questions:
            if asked.name.lower() in seen:
                raise BadParameter(asked.key(), "given twice", "a name names files", "take another")
            seen.add(asked.name.lower())
        with under("budget"):
            read_positive(self.epsilon, "epsilon")
            budget(self.epsilon, self.delta, self._currency())
            self._checked_account()
        confident(self.confidence)
        public = self.public if isinstance(self.public, Mapping) else {}
        places = {"source": self.source, "budget.ledger": self.ledger, "policy": self.policy, "path": self.path}
        for name, place in (places | {f"public.{name}": place for name, place in public.items()}).items():
            if isinstance(place, str) and _PASSWORD.search(place):
                raise BadParameter(
                    name, "an address with a password", "the plan is published too", "put the password into PGPASSWORD"
                )

    def open(self) -> Session:
        """The source and the account. No question is asked yet."""
        relation = self.neighbours if isinstance(self.neighbours, Neighbours) else Neighbours.named(self.neighbours)
        if self.ledger is None:
            account, failing = MemoryAccount(budget(self.epsilon, self.delta, self._currency())), read_decimal(self.delta)
            return Session.of(self._declared(), account, failing, relation, self.label)
        with under("budget"):
            purse, failing = purse_of(None, 0, None, self.ledger, self.account)
            if read_decimal(self.delta) and not isinstance(purse.budget.currency, Pure):
                raise BadParameter("delta", self.delta, "the account has its own, for life", "leave it out")
        return Session.of(self._declared(), purse, failing, relation, self.label)

    def _currency(self) -> Currency:
        if self.currency is None:
            return Pure()
        return named(self.currency) if isinstance(self.currency, str) else self.currency

    def _checked_account(self) -> None:
        if self.ledger is None and (self.account is not None or self.id is not None):
            raise BadParameter("ledger", "missing", "accounts and ids are a ledger's", "give it, or leave both out")
        if self.ledger is not None and self.currency is not None:
            raise BadParameter("currency", "given", "the ledger's account has its own, for life", "leave it out")

    def _declared(self) -> Declared:
        try:
            declared = self._declared_with(self.public)
        except SourceRefused as refused:
            raise SourceRefused(f"{self._refused_place()}: {refused.reason}", refused.way_out) from None
        if declared.auto:
            raise BadParameter(
                "bounds", "auto", "a plan is fixed beforehand, and bounds that are found are an answer", "declare them"
            )
        return declared

    def _declared_with(self, public: Mapping[str, Any] | None) -> Declared:
        return declare(
            self.source, unit=self.unit, policy=self.policy, table=self.table, path=self.path, bounds=self.bounds,
            keys=self.keys, max_groups=self.max_groups, max_rows=self.max_rows, unique=self.unique, public=public,
        )  # fmt: skip

    def _refused_place(self) -> str:
        """What could not be opened: the source, or the first public table with which it cannot be."""
        for name, public in [("source", {}), *((f"public.{name}", {name: p}) for name, p in (self.public or {}).items())]:
            try:
                self._declared_with(public)
            except SourceRefused:
                return name
        return "public"


_PASSWORD = re.compile(r"://[^/@\s]*:[^/@\s]+@|(^|[?&\s])\w*password\s*=", re.IGNORECASE)
