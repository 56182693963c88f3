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
from discreet.declare import ColumnBounds, Source, open_source
from discreet.errors import BadParameter, SourceRefused
from discreet.exact import Number, read_decimal, read_positive
from discreet.ledger.memory import MemoryAccount, create_budget
from discreet.mechanisms.quantile import check_confidence
from discreet.opening import open_account
from discreet.publisher.refusals import prefix_errors
from discreet.query.currency import parse_currency
from discreet.query.parse import QueryLike
from discreet.query.quote import check_size
from discreet.query.table import Key, Table
from discreet.session import Session
from discreet.units import Neighbours

Error: TypeAlias = str | Number
NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,59}")
MAX_QUERIES = 1_000
MAX_WEIGHT = Fraction(10**9)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadQuery:
    """One question of a workload.

    `error` is the half-width that every column may have, or one for each column by name; a column without one shares what
    is left of the budget, by `weight`. `size` is how many rows a group has, or a list with one number per group: known or
    guessed, never read off the data. A percentage is relative to the smallest of them.
    """

    name: str
    sql: QueryLike
    error: Error | Mapping[str, Error] | None = None
    size: int | Sequence[int] | None = None
    weight: Number = 1

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not NAME_PATTERN.fullmatch(self.name):
            raise BadParameter(
                "name", repr(self.name), "it names files", "take up to 60 letters, digits, - and _, a letter or digit first"
            )
        with prefix_errors(self.toml_key()):
            if not 1 / MAX_WEIGHT <= read_positive(self.weight, "weight") <= MAX_WEIGHT:
                raise BadParameter("weight", self.weight, "not between 10^-9 and 10^9", "1, 2, 3 say who gets more")
            wanted = self.error.values() if isinstance(self.error, Mapping) else [self.error]
            for error in wanted:
                if error is not None:
                    read_error(error)
            for size in self.sizes:
                check_size(size)

    def toml_key(self, part: str = "") -> str:
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

    def get_error(self, column: str) -> Error | None:
        """The error that a column may have."""
        return self.error.get(column) if isinstance(self.error, Mapping) else self.error


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One source, several questions, one budget.

    `epsilon` and `delta` are the most that the whole may cost. Without a ledger the plan is charged at a point of its
    certified curve, ε at this δ; with one, in the currency of the account, which has its own δ unless it is a pure one.

    >>> everybody = WorkloadQuery(name="all", sql="SELECT COUNT(*) AS n FROM people", error=20)
    >>> Workload(source="people.csv", unit="id", epsilon=1, questions=(everybody, everybody))
    Traceback (most recent call last):
    discreet.errors.BadParameter: questions.all is given twice: a name names files; take another
    """

    source: Any
    questions: tuple[WorkloadQuery, ...]
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
    bounds: ColumnBounds | None = None
    keys: Mapping[str, Sequence[Key]] | None = None
    public: Mapping[str, Any] | None = None
    max_groups: int | None = None
    max_rows: int | None = None
    unique: bool | None = None
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE
    label: str | None = None  # which state of the source is published
    text: str = field(default="", repr=False)  # the plan.toml that it was read from

    def __post_init__(self) -> None:
        if not self.questions or len(self.questions) > MAX_QUERIES:
            raise BadParameter("questions", len(self.questions), "there is nothing to publish, or too much",
                               f"ask 1 to {MAX_QUERIES:,}")  # fmt: skip
        seen: set[str] = set()
        for asked in self.questions:
            if asked.name.lower() in seen:
                raise BadParameter(asked.toml_key(), "given twice", "a name names files", "take another")
            seen.add(asked.name.lower())
        with prefix_errors("budget"):
            read_positive(self.epsilon, "epsilon")
            create_budget(self.epsilon, self.delta, self._parse_currency())
            self._check_account()
        check_confidence(self.confidence)
        public = self.public if isinstance(self.public, Mapping) else {}
        places = {"source": self.source, "budget.ledger": self.ledger, "policy": self.policy, "path": self.path}
        for name, place in (places | {f"public.{name}": place for name, place in public.items()}).items():
            if isinstance(place, str) and _PASSWORD.search(place):
                raise BadParameter(
                    name, "an address with a password", "the plan is published too", "put the password into PGPASSWORD"
                )

    def open_session(self) -> Session:
        """The source and the account. No question is asked yet."""
        relation = self.neighbours if isinstance(self.neighbours, Neighbours) else Neighbours.parse(self.neighbours)
        if self.ledger is None:
            account, failing = (
                MemoryAccount(create_budget(self.epsilon, self.delta, self._parse_currency())),
                read_decimal(self.delta),
            )
            return Session.of(self._open_source(), account, failing, relation, self.label)
        with prefix_errors("budget"):
            purse, failing = open_account(None, 0, None, self.ledger, self.account)
            if read_decimal(self.delta) and not isinstance(purse.budget.currency, Pure):
                raise BadParameter("delta", self.delta, "the account has its own, for life", "leave it out")
        return Session.of(self._open_source(), purse, failing, relation, self.label)

    def _parse_currency(self) -> Currency:
        if self.currency is None:
            return Pure()
        return parse_currency(self.currency) if isinstance(self.currency, str) else self.currency

    def _check_account(self) -> None:
        if self.ledger is None and (self.account is not None or self.id is not None):
            raise BadParameter("ledger", "missing", "accounts and ids are a ledger's", "give it, or leave both out")
        if self.ledger is not None and self.currency is not None:
            raise BadParameter("currency", "given", "the ledger's account has its own, for life", "leave it out")

    def _open_source(self) -> Source:
        try:
            declared = self._open_source_with(self.public)
        except SourceRefused as refused:
            raise SourceRefused(f"{self._find_refused_source()}: {refused.reason}", refused.hint) from None
        if declared.auto_bounds:
            raise BadParameter(
                "bounds", "auto", "a plan is fixed beforehand, and bounds that are found are an answer", "declare them"
            )
        return declared

    def _open_source_with(self, public: Mapping[str, Any] | None) -> Source:
        return open_source(
            self.source, unit=self.unit, policy=self.policy, table=self.table, path=self.path, bounds=self.bounds,
            keys=self.keys, max_groups=self.max_groups, max_rows=self.max_rows, unique=self.unique, public=public,
        )  # fmt: skip

    def _find_refused_source(self) -> str:
        """What could not be opened: the source, or the first public table with which it cannot be."""
        for name, public in [("source", {}), *((f"public.{name}", {name: p}) for name, p in (self.public or {}).items())]:
            try:
                self._open_source_with(public)
            except SourceRefused:
                return name
        return "public"


_PASSWORD = re.compile(r"://[^/@\s]*:[^/@\s]+@|(^|[?&\s])\w*password\s*=", re.IGNORECASE)
