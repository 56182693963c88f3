"""A workload: several queries about one source, the errors that they may have, and one budget. As Python, or as plan.toml.

The options of the source are those of `session/options.py`. In a plan.toml decimals are read exactly, paths are relative to
the file, and every error names the key that it is about.
"""

import re
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from decimal import Decimal
from difflib import get_close_matches
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

from discreet._numbers import Number, check_confidence, read_decimal, read_positive
from discreet.accounting.currencies import Currency, Pure, parse_currency
from discreet.errors import (
    BadParameter,
    DiscreetError,
    PlanRefused,
    Problems,
    QueryRefused,
    SourceQuarantined,
    SourceRefused,
)
from discreet.ledger.account import Account
from discreet.ledger.memory import create_budget
from discreet.paths import read_text
from discreet.query.calibrate import check_size, read_error
from discreet.query.parser import QueryLike
from discreet.session.connect import open_account, open_session
from discreet.session.options import WRITTEN_OPTIONS, SourceOptions
from discreet.session.session import Session

Error: TypeAlias = str | Number
NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,59}")
MAX_QUERIES = 1_000
MAX_WEIGHT = Fraction(10**9)


@contextmanager
def prefix_errors(key: str) -> Iterator[None]:
    """Put a key of the plan before the name in every error that the body raises.

    >>> with prefix_errors("questions.pay"):
    ...     raise BadParameter("error", "0", "must be positive", "give more")
    Traceback (most recent call last):
    discreet.errors.BadParameter: questions.pay.error is 0: must be positive. Give more.
    """
    try:
        yield
    except PlanRefused as refused:
        raise PlanRefused([_prefix_error(key, each) for each in refused.problems]) from None
    except (QueryRefused, BadParameter) as refused:
        raise _prefix_error(key, refused) from None


def _prefix_error(key: str, error: DiscreetError) -> DiscreetError:
    if isinstance(error, QueryRefused):
        return QueryRefused(f"{key}: {error.reason}", error.hint, error.line, error.column)
    if isinstance(error, BadParameter):
        return BadParameter(f"{key}.{error.name}", error.value, error.reason, error.hint, column=error.of_column)
    return error


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadQuery:
    """One query of a workload.

    `error` is the half-width that every column may have, or one for each column by name. Columns without one share the rest
    of the budget by `weight`. `size` is the number of rows of a group, or a list with one number per group: known or
    assumed, never read from the data. A percentage is relative to the smallest of them.
    """

    name: str
    sql: QueryLike
    error: Error | Mapping[str, Error] | None = None
    size: int | Sequence[int] | None = None
    weight: Number = 1

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not NAME_PATTERN.fullmatch(self.name):
            raise BadParameter(
                "name",
                repr(self.name),
                "a query's name is also that of its files",
                "take up to 60 letters, digits, - and _, beginning with a letter or digit",
            )
        problems = Problems()
        with problems.collect(), prefix_errors(self.toml_key()):
            if not 1 / MAX_WEIGHT <= read_positive(self.weight, "weight") <= MAX_WEIGHT:
                raise BadParameter("weight", self.weight, "not between 10^-9 and 10^9", "give weights such as 1, 2, 3")
        for error in self.error.values() if isinstance(self.error, Mapping) else [self.error]:
            if error is not None:
                with problems.collect(), prefix_errors(self.toml_key()):
                    read_error(error)
        with problems.collect(), prefix_errors(self.toml_key()):
            for size in self.sizes:
                check_size(size)
        problems.raise_all()

    def toml_key(self, part: str = "") -> str:
        """The key of this query, or of a part of it, in a plan.toml."""
        return f"questions.{self.name}" + (f".{part}" if part else "")

    @property
    def sizes(self) -> tuple[int, ...]:
        """The given sizes."""
        if self.size is None:
            return ()
        if isinstance(self.size, str | bytes) or not isinstance(self.size, Sequence | int):
            raise BadParameter("size", repr(self.size), "not a number of rows", "give 1000, or a list with one per group")
        return (self.size,) if isinstance(self.size, int) else tuple(self.size)

    def get_error(self, column: str) -> Error | None:
        """The error that a column may have."""
        return self.error.get(column) if isinstance(self.error, Mapping) else self.error


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions(SourceOptions, ABC):
    """One source with its options, and one budget: what every plan has, whatever it asks for.

    `epsilon` and `delta` are the most that all of it may cost. Without a ledger the plan is charged at one point of its
    certified curve, ε at this δ; with one, in the currency of the account, which has its own δ unless it is a pure one.
    """

    epsilon: Number
    delta: Number = 0
    currency: Currency | str | None = None
    ledger: str | PathLike[str] | None = None
    account: str | None = None
    id: str | None = None
    title: str = ""
    confidence: Number = 0.95
    text: str = field(default="", repr=False)  # the plan.toml that it was read from

    def __post_init__(self) -> None:
        problems = Problems()
        with problems.collect():
            self._check_names()
        with problems.collect(), prefix_errors("budget"):
            read_positive(self.epsilon, "epsilon")
            create_budget(self.epsilon, self.delta, self._parse_currency())
        with problems.collect(), prefix_errors("budget"):
            self._check_account()
        with problems.collect():
            check_confidence(self.confidence)
        for key, place in self._list_paths():
            if isinstance(place, str) and _PASSWORD.search(place):
                with problems.collect():
                    raise BadParameter(
                        key, "an address with a password", "the plan is published too", "put the password into PGPASSWORD"
                    )
        problems.raise_all()

    @abstractmethod
    def _check_names(self) -> None:
        """Refuse what is asked for, if its names are wrong."""

    def open_session(self, account: "tuple[Account, Fraction] | None" = None) -> Session:
        """Open the source, and the account unless it is given. No query runs."""
        return open_plan_session(self, self.open_account() if account is None else account)

    @property
    def assumed_delta(self) -> Number:
        """The δ of the account that is assumed, or to be opened, for this plan."""
        return self.delta

    def assume_account(self) -> tuple[Account, Fraction]:
        """The account that a plan is computed for while its ledger does not have one: with the plan's own budget."""
        delta = self.delta if self.ledger is None else self.assumed_delta
        return open_account(self.epsilon, delta, self._parse_currency(), None, None)

    def open_account(self) -> tuple[Account, Fraction]:
        """The account that pays, and the δ at which its budget guarantees an ε."""
        if self.ledger is None:
            return self.assume_account()
        with prefix_errors("budget"):
            account, delta = open_account(None, 0, None, self.ledger, self.account)
            if read_decimal(self.delta) not in (0, delta) and not account.budget.currency.counts_epsilon:
                reason = f"the account has its own, {float(delta):.6g}, which cannot be changed"
                raise BadParameter("delta", self.delta, reason, "leave it out")
        return account, delta

    def _parse_currency(self) -> Currency:
        if self.currency is None:
            return Pure()
        return parse_currency(self.currency) if isinstance(self.currency, str) else self.currency

    def _check_account(self) -> None:
        if self.ledger is None and (self.account is not None or self.id is not None):
            given = "account" if self.account is not None else "id"
            raise BadParameter("ledger", "missing", f"{given} belongs to a ledger", f"give the ledger, or leave out {given}")
        if self.ledger is not None and self.currency is not None:
            reason = "the account of the ledger has its own, which cannot be changed"
            raise BadParameter("currency", "given", reason, "leave it out")

    def _list_paths(self) -> Iterator[tuple[str, Any]]:
        """Every path and address, with its key in a plan.toml."""
        yield "budget.ledger", self.ledger
        for option in _PATH_OPTIONS:
            value = getattr(self, option)
            if WRITTEN_OPTIONS[option].kind is not dict:
                yield option, value
            elif isinstance(value, Mapping):
                yield from ((f"{option}.{name}", place) for name, place in value.items())


def open_plan_session(options: SourceOptions, account: tuple[Account, Fraction]) -> Session:
    """Open the source of a plan for an account with its δ. No query runs."""
    try:
        session = open_session(options, *account)
    except SourceQuarantined:
        raise
    except SourceRefused as refused:
        where = "" if refused.reason.startswith("public.") else "source: "
        raise SourceRefused(f"{where}{refused.reason}", refused.hint, *refused.for_owner) from None
    if session.auto_bounds:
        raise BadParameter(
            "bounds", "auto", "a plan is fixed before any query runs, and discovering bounds is a query", "declare them"
        )
    return session


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload(PlanOptions):
    """One source with its options, several queries, one budget.

    >>> everybody = WorkloadQuery(name="all", sql="SELECT COUNT(*) AS n FROM people", error=20)
    >>> Workload(source="people.csv", unit="id", epsilon=1, questions=(everybody, everybody))
    Traceback (most recent call last):
    discreet.errors.BadParameter: questions.all is given twice: a query's name is also that of its files. Take another.
    """

    questions: tuple[WorkloadQuery, ...]

    def _check_names(self) -> None:
        listed = self.questions
        if not isinstance(listed, list | tuple) or not all(isinstance(query, WorkloadQuery) for query in listed):
            reason, hint = "not a list of queries", 'give [WorkloadQuery("all", "SELECT COUNT(*) AS n FROM people")]'
            raise BadParameter("questions", f"of type {type(listed).__name__}", reason, hint)
        if not self.questions or len(self.questions) > MAX_QUERIES:
            raise BadParameter(
                "questions", len(self.questions), "the number of queries is out of range", f"give 1 to {MAX_QUERIES:,}"
            )
        seen: set[str] = set()
        for query in self.questions:
            if query.name.lower() in seen:
                reason = "a query's name is also that of its files"
                raise BadParameter(query.toml_key(), "given twice", reason, "take another")
            seen.add(query.name.lower())


_PASSWORD = re.compile(r"://[^/@\s]*:[^/@\s]+@|(^|[?&\s])\w*password\s*=", re.IGNORECASE)
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+://|spark:", re.IGNORECASE)

_PATH_OPTIONS = [name for name, spec in WRITTEN_OPTIONS.items() if spec.is_path]
TABLE_KEYS = {name for name, spec in WRITTEN_OPTIONS.items() if spec.kind is dict} | {"budget", "questions"}
TOP_LEVEL_KEYS = (WRITTEN_OPTIONS.keys() | TABLE_KEYS | {"title", "confidence"}) - {"questions"}
BUDGET_KEYS = {"epsilon", "delta", "currency", "ledger", "account", "id"}
QUERY_KEYS = {"sql", "error", "size", "weight"}
TEXT_KEYS = {name for name, spec in WRITTEN_OPTIONS.items() if spec.kind is str} | {
    "title", "currency", "ledger", "account", "id", "sql",
}  # fmt: skip
LIST_KEYS = {name for name, spec in WRITTEN_OPTIONS.items() if spec.kind is list}
PATH_KEYS = {*_PATH_OPTIONS, "ledger"}


def read_workload(path: "str | PathLike[str]", beside: "str | PathLike[str] | None" = None) -> Workload:
    """Read the workload in a plan.toml. Its paths are relative to the file, or to the folder `beside`.

    >>> [query.name for query in read_workload("examples/publish.toml").questions]
    ['headcount', 'pay', 'ages', 'spread']
    """
    return parse_workload(read_plan_file(path), Path(path).parent if beside is None else Path(beside))


def read_plan_file(path: "str | PathLike[str]") -> str:
    """Read the text of a plan.toml."""

    def refuse(reason: str) -> SourceRefused:
        return SourceRefused(f"the plan {str(path)!r}: {reason}", "check the path", parameter="plan")

    if not isinstance(path, str | PathLike):
        reason, hint = "not the path of a plan.toml", 'give plan="plan.toml"'
        raise BadParameter("plan", f"of type {type(path).__name__}", reason, hint)
    return read_text(path, refuse)


def parse_workload(text: str, beside: Path) -> Workload:
    """Parse the text of a plan.toml. Its paths are relative to the folder `beside`.

    >>> parse_workload('source = "people.csv"\\n[budget]\\nepsilon = 1\\n[questions.all]\\nsquel = "SELECT 1"', Path())
    Traceback (most recent call last):
    discreet.errors.BadParameter: questions.all.squel is given: there is no such key. Did you mean sql?

    Raises:
        BadParameter: the plan has a problem.
        PlanRefused: it has several, which are listed.
    """
    workload, problems = parse_sound_parts(text, beside)
    problems.raise_all()
    assert workload is not None
    return workload


def parse_sound_parts(text: str, beside: Path, name: str = "this text") -> tuple[Workload | None, Problems]:
    """Parse a plan.toml as far as it is sound: what is left of it as a workload, if anything, and every problem."""
    problems = Problems()
    plan = load_toml(text, name, problems)
    if plan is None:
        return None, problems
    top, budget = parse_options(plan, {"questions"}, beside, problems)
    questions = top.pop("questions", {})
    queries = []
    for name, fields in questions.items():
        with problems.collect():
            queries += _parse_query(name, fields, beside, problems)
    workload = None
    with problems.collect():
        workload = Workload(
            questions=tuple(queries) or (PLACEHOLDERS["questions"],) * bool(questions), text=text, **top, **budget
        )
    return workload if queries else None, problems


def has_hierarchy(path: "str | PathLike[str]") -> bool:
    """Whether a plan.toml has a hierarchy. What is wrong with it is said when it is read."""
    return _has_section(path, "hierarchy")


def has_tables(path: "str | PathLike[str]") -> bool:
    """Whether a plan.toml has tables in place of queries. What is wrong with it is said when it is read."""
    return _has_section(path, "tables")


def _has_section(path: "str | PathLike[str]", name: str) -> bool:
    plan = load_toml(read_plan_file(path), str(path), Problems())
    return plan is not None and name in plan


def load_toml(text: str, name: str, problems: Problems) -> dict[str, Any] | None:
    """Parse TOML, decimals exactly; None, and a problem, if it is not TOML."""
    try:
        return tomllib.loads(text, parse_float=Decimal)
    except (ValueError, ArithmeticError, RecursionError) as mistake:
        reason = "nested too deeply" if isinstance(mistake, RecursionError) else str(mistake)
        with problems.collect():
            raise BadParameter("plan", name, f"not TOML ({reason})", "correct that line") from None
        return None


def parse_options(
    plan: dict[str, Any], own_keys: Set[str], beside: Path, problems: Problems
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the sound fields of a plan, with those of its budget apart. `own_keys` are those of what it asks for."""
    top = parse_fields(plan, "", TOP_LEVEL_KEYS | own_keys, beside, problems)
    budget = parse_fields(top.pop("budget", {}), "budget", BUDGET_KEYS, beside, problems)
    for key, table, given, example in (
        ("source", top, plan, 'source = "people.csv"'),
        ("budget.epsilon", budget, plan.get("budget", {}), "epsilon = 1 in [budget]"),
    ):
        name = key.removeprefix("budget.")
        if name not in table:
            with problems.collect():
                _require_key(name, key, given, "a plan needs it", f"write {example}")
            table[name] = PLACEHOLDERS[key]
    return top, budget


PLACEHOLDERS: dict[str, Any] = {
    "source": object(), "budget.epsilon": 1, "questions": WorkloadQuery(name="none", sql="SELECT COUNT(*)"),
}  # fmt: skip
"""What stands for a missing key while the rest of the plan is looked at. A plan with one is never run."""


def _require_key(name: str, key: str, given: Any, reason: str, hint: str) -> None:
    """Refuse a table without a key that it needs, unless one of its own is a misspelling of it, which is refused as such."""
    if isinstance(given, dict) and name not in given and not get_close_matches(name, given, 1):
        raise BadParameter(key, "missing", reason, hint)


def _parse_query(name: str, fields: Any, beside: Path, problems: Problems) -> list[WorkloadQuery]:
    """Return the query if it has its SQL."""
    key = f"questions.{name}"
    found = parse_fields(fields, key, QUERY_KEYS, beside, problems)
    _require_key("sql", f"{key}.sql", fields, "a query needs its SQL", 'write sql = "SELECT …"')
    if "sql" not in found:
        return []
    with problems.collect():
        return [WorkloadQuery(name=name, **found)]
    with suppress(BadParameter):  # of a query with a wrong weight, error or size, the SQL can still be looked at
        return [WorkloadQuery(name=name, sql=found["sql"])]
    return []


def parse_fields(table: Any, where: str, allowed: Set[str], beside: Path, problems: Problems) -> dict[str, Any]:
    """The sound fields of a table of the plan: known keys, texts where texts belong, paths made relative to `beside`."""
    found: dict[str, Any] = {}
    if not isinstance(table, dict):
        with problems.collect():
            raise BadParameter(where, repr(table), "not a table of keys", f"write [{where}] and keys below it")
        return found
    for name, value in table.items():
        key = f"{where}.{name}" if where else name
        with problems.collect():
            if name not in allowed:
                raise BadParameter(key, "given", "there is no such key", _suggest_key(name, allowed))
            if name in TEXT_KEYS and not (isinstance(value, str) and value):
                raise BadParameter(key, repr(value), "not a text", f'write {name} = "…"')
            if name in LIST_KEYS and not (value and isinstance(value, str | list)):
                raise BadParameter(key, repr(value), "neither a text nor a list of texts", f'write {name} = "…"')
            if name in TABLE_KEYS and not isinstance(value, dict):
                raise BadParameter(key, repr(value), "not a table", f"write [{name}]")
            found[name] = _resolve_paths(value, key, beside) if name in PATH_KEYS else value
    return found


def _suggest_key(name: str, allowed: Set[str]) -> str:
    if near := get_close_matches(name, allowed, 1):
        return f"did you mean {near[0]}?"
    *others, last = sorted(allowed)
    return f"take {', '.join(others)} or {last}"


def _resolve_paths(place: Any, key: str, beside: Path) -> Any:
    """A path, or each path of a table, as seen from here; an address unchanged."""
    if isinstance(place, dict):
        return {name: _resolve_paths(each, f"{key}.{name}", beside) for name, each in place.items()}
    if not isinstance(place, str) or not place:
        raise BadParameter(key, repr(place), "not a path", f'write {key.rpartition(".")[2]} = "…"')
    if _ADDRESS.match(place):
        return place
    try:
        return str(beside / Path(place).expanduser())
    except RuntimeError as error:  # an unknown user's home
        raise BadParameter(key, repr(place), f"cannot be resolved ({error})", "write the whole path") from None
