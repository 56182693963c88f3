"""What is to be published, of which source, how accurate, for how much."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

from discreet._numbers import Number, check_confidence, read_decimal, read_positive
from discreet.accounting.currencies import Currency, Pure, parse_currency
from discreet.errors import BadParameter, QueryRefused, SourceRefused
from discreet.ledger.memory import MemoryAccount, create_budget
from discreet.paths import read_text
from discreet.query.calibrate import check_size, read_error
from discreet.query.parser import QueryLike
from discreet.query.schema import Key, Table
from discreet.session.connect import open_account
from discreet.session.session import Session
from discreet.session.source import ColumnBounds, Source, open_source
from discreet.units import Neighbours

# Refusals that name the key of the plan that they are about.


@contextmanager
def prefix_errors(key: str) -> Iterator[None]:
    """Whatever is refused inside is refused under this key.

    >>> with prefix_errors("questions.pay"):
    ...     raise BadParameter("error", "0", "must be positive", "give more")
    Traceback (most recent call last):
    discreet.errors.BadParameter: questions.pay.error is 0: must be positive; give more
    """
    try:
        yield
    except QueryRefused as refused:
        raise QueryRefused(f"{key}: {refused.reason}", refused.hint, refused.line, refused.column) from None
    except BadParameter as wrong:
        raise BadParameter(f"{key}.{wrong.name}", wrong.value, wrong.reason, wrong.hint) from None


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
            if read_decimal(self.delta) and not purse.budget.currency.counts_epsilon:
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


# plan.toml: a workload as a steward writes it. Decimals are read exactly; every mistake is told by its key.


TOP_LEVEL_KEYS = {
    "title", "label", "source", "unit", "policy", "table", "path", "max_groups", "max_rows", "unique", "neighbours",
    "confidence",
}  # fmt: skip
TABLE_KEYS = {"bounds", "keys", "public", "budget", "questions"}
BUDGET_KEYS = {"epsilon", "delta", "currency", "ledger", "account", "id"}
QUERY_KEYS = {"sql", "error", "size", "weight"}
TEXT_KEYS = {
    "title", "label", "source", "unit", "policy", "table", "path", "neighbours", "currency", "ledger", "account", "id",
    "sql",
}  # fmt: skip
PATH_KEYS = {"source", "policy", "path", "ledger"}


def read_workload(path: "str | PathLike[str]", beside: "str | PathLike[str] | None" = None) -> Workload:
    """The workload in a plan.toml. Its paths are relative to the file, or to the folder `beside`.

    >>> [asked.name for asked in read_workload("examples/publish.toml").questions]
    ['headcount', 'pay', 'ages', 'spread']
    """
    text = read_text(path, lambda reason: SourceRefused(f"the plan {str(path)!r}: {reason}", "check the path"))
    return parse_workload(text, Path(path).parent if beside is None else Path(beside))


def parse_workload(text: str, beside: Path) -> Workload:
    """The workload, its paths being relative to the folder `beside`.

    >>> parse_workload('source = "people.csv"\\n[budget]\\nepsilon = 1\\n[questions.all]\\nsquel = "SELECT 1"', Path())
    Traceback (most recent call last):
    discreet.errors.BadParameter: questions.all.squel is given: there is no such key; take error, size, sql or weight
    """
    try:
        plan = tomllib.loads(text, parse_float=Decimal)
    except (ValueError, ArithmeticError) as mistake:
        raise BadParameter("plan", "this text", f"not TOML ({mistake})", "see docs/publishing.md") from None
    top = _parse_table(plan, "", TOP_LEVEL_KEYS | TABLE_KEYS, beside)
    top["public"] = {name: _resolve_path(place, f"public.{name}", beside) for name, place in top.get("public", {}).items()}
    budget = _parse_table(top.pop("budget", {}), "budget", BUDGET_KEYS, beside)
    questions = top.pop("questions", {})
    for key, found in (("source", top), ("budget.epsilon", budget)):
        if key.removeprefix("budget.") not in found:
            raise BadParameter(key, "missing", "a plan needs it", "see docs/publishing.md")
    asked = tuple(_parse_query(name, fields, beside) for name, fields in questions.items())
    return Workload(questions=asked, text=text, **top, **budget)


def _parse_query(name: str, fields: Any, beside: Path) -> WorkloadQuery:
    found = _parse_table(fields, f"questions.{name}", QUERY_KEYS, beside)
    if "sql" not in found:
        raise BadParameter(f"questions.{name}.sql", "missing", "a question has a text", 'write sql = "SELECT …"')
    return WorkloadQuery(name=name, **found)


def _parse_table(found: Any, where: str, allowed: set[str], beside: Path) -> dict[str, Any]:
    """The fields of a table of the plan, each known, texts where texts belong, paths from where they start."""
    if not isinstance(found, dict):
        raise BadParameter(where, repr(found), "not a table of keys", "see docs/publishing.md")
    for name, value in found.items():
        key = f"{where}.{name}" if where else name
        if name not in allowed:
            *others, last = sorted(allowed)
            raise BadParameter(key, "given", "there is no such key", f"take {', '.join(others)} or {last}")
        if name in TEXT_KEYS and not (isinstance(value, str) and value):
            raise BadParameter(key, repr(value), "a text is needed here", f'write {name} = "…"')
        if name in TABLE_KEYS and not isinstance(value, dict):
            raise BadParameter(key, repr(value), "a table is needed here", f"write [{name}]")
    return {
        name: _resolve_path(value, f"{where}.{name}".strip("."), beside) if name in PATH_KEYS else value
        for name, value in found.items()
    }


def _resolve_path(place: Any, key: str, beside: Path) -> str:
    """A path as it is from here; an address as it is."""
    if not isinstance(place, str) or not place:
        raise BadParameter(key, repr(place), "not the path of anything", "write it as a text")
    if _ADDRESS.match(place):
        return place
    try:
        return str(beside / Path(place).expanduser())
    except RuntimeError as error:  # an unknown user's home
        raise BadParameter(key, repr(place), f"it leads nowhere ({error})", "write the whole path") from None


_ADDRESS = re.compile(r"(postgres(ql)?|spark|s3|gs|hdfs|https?)://|spark:", re.IGNORECASE)
