"""What publications of tables that add up have in common, with a hierarchy or without: plan.toml, certificate, files."""

import json
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from discreet._numbers import Number, read_decimal
from discreet.errors import BadParameter, DiscreetError, Problems, QueryRefused, SourceQuarantined
from discreet.ledger.account import Account
from discreet.ledger.certificate import make_certificate
from discreet.ledger.chain import LedgerAccount
from discreet.ledger.keys import load_key, resolve_key_path
from discreet.session.session import Session
from discreet.tabulation.files import DESCRIPTION_FILE
from discreet.tabulation.priced_plan import PricedPlan
from discreet.tabulation.wanted import WantedTable, read_wanted
from discreet.workload.accounts import find_account
from discreet.workload.sound_parts import open_sound_session
from discreet.workload.spec import (
    NAME_PATTERN,
    PlanOptions,
    load_toml,
    parse_fields,
    parse_options,
    prefix_errors,
    read_plan_file,
)
from discreet.workload.table_pages import Tabulated

ASSUMED_DELTA = Decimal("1e-6")
"""The δ of an account that is proposed for a plan without one."""
ASSUMED_BUDGET = {"epsilon": 1, "delta": ASSUMED_DELTA}
"""What stands for a budget that is refused, while the rest of the plan is looked at."""
GUARANTEE_FILE, CERTIFICATE_FILE, PLAN_FILE = "guarantee.md", "release.json", "plan.toml"


Planned = TypeVar("Planned", bound=PricedPlan)


@dataclass(frozen=True, slots=True, kw_only=True)
class TabulationOptions(PlanOptions):
    """A plan with tables. Its noise is Gaussian: its account needs a δ."""

    tables: tuple[Any, ...]
    computed: Mapping[str, str] = field(default_factory=dict)
    where: str | None = None
    weight: str | None = None

    def _check_names(self) -> None:
        if not self.tables:
            raise BadParameter("tables", "empty", "no table is wanted", 'write [tables.NAME] and by = ["column"]')
        Problems(_list_name_problems([table.name for table in self.tables])).raise_all()

    @property
    def assumed_delta(self) -> Number:
        """That of the plan, or a usual one."""
        return self.delta if read_decimal(self.delta) else ASSUMED_DELTA

    def certified_delta(self, session: Session) -> Number | None:
        """The δ of the certified point that the plan is charged at; None where the account decides it."""
        is_given = session.account.budget.currency.counts_epsilon and (read_decimal(self.delta) or self.ledger is None)
        return self.delta if is_given else None

    def find_account(self, *, assume: bool = False) -> tuple[tuple[Account, Fraction] | None, str]:
        """Return the account to look at the plan with, as `accounts.find_account`; none if it is refused, which `plan` says
        with all other problems."""
        with suppress(DiscreetError):
            return find_account(self, assume=assume)
        return None, ""

    def list_all_problems(self, find: Callable[[], Planned], account: "tuple[Account, Fraction] | None") -> Planned:
        """Return what `find` plans. If it refuses, refuse with all that is wrong with the plan, not one problem alone."""
        try:
            return find()
        except SourceQuarantined:
            raise
        except DiscreetError:
            problems = Problems()
            self.collect_problems(problems, account)
            problems.raise_all()
            raise

    def collect_problems(
        self, problems: Problems, account: "tuple[Account, Fraction] | None" = None, *, priced: Collection[str] | None = None
    ) -> None:
        """Collect what is wrong with a refused plan: its account, its source, its tables, and whether the budget is enough
        for those of the tables `priced`, all if None, that are sound. No row is read."""
        if account is None:
            with problems.collect_new():
                account = find_account(self)[0]
        session = open_sound_session(self, account or self.assume_account(), problems)
        self._collect_table_problems(session, problems)
        tables = [table for table in self.tables if priced is None or table.name in priced]
        if session is not None and tables:
            try:
                self._plan_sound_tables(session, tables)
            except QueryRefused as refused:
                with problems.collect_new():
                    raise refused
            except DiscreetError:  # said before
                return

    def _collect_column_problems(self, session: Session, problems: Problems) -> None:
        """Collect what is wrong with the columns of the tables, with the condition and with the weight. No row is read."""
        texts = {name: text for name, text in self.computed.items() if isinstance(text, str)}
        tables = [WantedTable(table.by, f"table_{i}") for i, table in enumerate(self.tables)]  # names were looked at
        with problems.collect_new():
            read_wanted(session, tables, columns=texts, where=self.where, weight=self.weight)

    def _pick_computed(self, tables: Iterable[Any]) -> dict[str, str]:
        """Return the computed columns that some tables are by."""
        return {name: self.computed[name] for table in tables for name in table.by if name in self.computed}

    @abstractmethod
    def _collect_table_problems(self, session: Session | None, problems: Problems) -> None:
        """Collect what is wrong with the tables; without a session, as far as no column is looked at."""

    @abstractmethod
    def _plan_sound_tables(self, session: Session, tables: Sequence[Any]) -> None:
        """Find the noise of those tables that are sound: if the budget is too small for them, it is for all."""


def _list_name_problems(names: Iterable[str]) -> list[DiscreetError]:
    """What is wrong with the names of tables, which are names of files."""
    problems: list[DiscreetError] = []
    for name in names:
        if not NAME_PATTERN.fullmatch(name):
            hint = "take up to 60 letters, digits, - and _, beginning with a letter or digit"
            problems.append(BadParameter(f"tables.{name}", "given", "a table's name is also that of its files", hint))
        elif name.lower() == Path(DESCRIPTION_FILE).stem:
            reason = "a file of every tabulation has this name"
            problems.append(BadParameter(f"tables.{name}", "given", reason, "take another"))
    return problems


# -- plan.toml --------------------------------------------------------------------------------------------------------------

Workload = TypeVar("Workload", bound=TabulationOptions)
SHARED_KEYS = {"tables", "computed", "where", "weight"}


def read_workload(
    path: "str | PathLike[str]",
    beside: "str | PathLike[str] | None",
    parse: Callable[[dict[str, Any], str, Path, Problems], Workload | None],
) -> Workload:
    """Read a plan.toml with `parse`, which collects problems; all of them are refused at once."""
    text, problems = read_plan_file(path), Problems()
    plan = load_toml(text, str(path), problems)
    workload = None
    if plan is not None:
        workload = parse(plan, text, Path(path).parent if beside is None else Path(beside), problems)
    problems.raise_all()
    assert workload is not None
    return workload


@dataclass(frozen=True)
class PlanParts:
    """The sound parts of a plan.toml with tables: what every such plan has, and the keys of its own kind."""

    beside: Path
    problems: Problems
    own: dict[str, Any]  # the sections of its own kind
    tables: dict[str, dict[str, Any]]  # the sound fields of each table; `by` is there, as a tuple, if it is sound
    shared: dict[str, Any]  # computed, where, weight, text, and the options of every plan
    budget: dict[str, Any]
    has_budget: bool  # whether the budget was given, and nothing stands for it

    @classmethod
    def parse(
        cls, plan: dict[str, Any], text: str, beside: Path, problems: Problems, own_keys: Set[str], fields: Set[str]
    ) -> "PlanParts":
        """Read a plan as far as it is sound, and collect every problem. `fields` are those of its tables."""
        if "questions" in plan:
            reason, hint = (
                "tables add up among themselves, and not with other queries",
                "write one plan for the tables, and one for the queries",
            )
            problems.add("questions", "given with tables", reason, hint)
        sections = {name: each for name, each in plan.items() if name != "questions"}
        top, budget = parse_options(sections, SHARED_KEYS | own_keys, beside, problems)
        own = {name: top.pop(name) for name in (SHARED_KEYS | own_keys) & top.keys()}
        tables = {}
        for name, given in require_table(own.get("tables", {}), "tables", problems).items():
            found = parse_fields(given, f"tables.{name}", fields, beside, problems)
            by = found.pop("by", None)
            with problems.collect(), prefix_errors(f"tables.{name}"):
                found["by"] = WantedTable(_read_columns(by)).by
            tables[name] = found
        shared = top | {"text": text, "computed": _read_computed(own, problems)}
        for name in ("where", "weight"):
            shared[name] = own.get(name) if isinstance(own.get(name), str) else None
        given = plan.get("budget")
        has_budget = isinstance(given, dict) and "epsilon" in given
        return cls(beside, problems, own, tables, shared, budget, has_budget)

    def read_field(self, table: str, name: str, check: Callable[[Any], Any]) -> Any:
        """Return a field of a table as `check` reads it; None if it is not there, or, with a problem, if it is not sound."""
        with self.problems.collect(), prefix_errors(f"tables.{table}"):
            return check(self.tables[table][name]) if name in self.tables[table] else None
        return None

    def build(self, kind: "type[Workload]", tables: Sequence[Any], stand_in: Any, **own: Any) -> Workload | None:
        """Return the plan. If it is refused, collect what else is wrong with it, beyond its file; nothing is read.

        `stand_in` is a table in place of none.
        """
        problems = self.problems
        if not problems.found:
            with problems.collect():
                return kind(tables=tuple(tables), **own, **self.shared, **self.budget)
        with problems.collect_new():  # says what is wrong with names, budget and confidence
            kind(tables=tuple(tables) or (stand_in,), **own, **self.shared, **self.budget)
        renamed = [
            replace(table, name=f"table_{i}") if _list_name_problems([table.name]) else table
            for i, table in enumerate(tables)
        ]
        plain = {name: each for name, each in self.shared.items() if name != "confidence"}
        stripped = [replace(table, name=f"table_{i}", error=None) for i, table in enumerate(tables)] or [stand_in]
        attempts: list[tuple[Sequence[Any], dict[str, Any], dict[str, Any]]] = [
            (some, options, budget)
            for some in (renamed, stripped)
            for options, budget in ((self.shared, self.budget), (plain, self.budget), (plain, ASSUMED_BUDGET))
        ]
        for some, options, budget in attempts:
            with suppress(DiscreetError):
                sound = kind(tables=tuple(some), **own, **options, **budget)
                is_priced = self.has_budget and budget is self.budget and some is renamed
                priced = [name for name, found in self.tables.items() if "by" in found] if is_priced else []
                sound.collect_problems(problems, priced=priced)
                break
        return None


def require_table(value: Any, key: str, problems: Problems) -> dict[str, Any]:
    """Return a table of the plan; collect a problem if it is something else."""
    if isinstance(value, dict):
        return value
    problems.add(key, repr(value), "not a table", f"write [{key}]")
    return {}


def _read_columns(by: Any) -> tuple[str, ...]:
    """Return the columns of a table: a list, or the name of one."""
    if isinstance(by, str):
        return (by,)
    if not isinstance(by, list) or not all(isinstance(name, str) for name in by):
        raise BadParameter("by", repr(by), "not a list of columns", 'write by = ["sex", "age"], or by = [] for the total')
    return tuple(by)


def _read_computed(own: Mapping[str, Any], problems: Problems) -> dict[str, Any]:
    """Return the computed columns. Collect a problem for each that is no text, and likewise for `where` and `weight`."""
    computed = require_table(own.get("computed", {}), "computed", problems)
    texts = {f"computed.{name}": each for name, each in computed.items()}
    texts |= {name: own[name] for name in ("where", "weight") if name in own}
    for key, value in texts.items():
        if not isinstance(value, str) or not value:
            problems.add(key, repr(value), "not a text", f'write {key.rpartition(".")[2]} = "…"')
    return computed


# -- publishing -------------------------------------------------------------------------------------------------------------


def check_fresh(workload: PlanOptions, fresh: bool) -> None:
    """Refuse new noise for a plan whose retry would draw it again."""
    if fresh and (workload.ledger is None or workload.id is None):
        reason = "without an id a retry cannot be distinguished from a new publication"
        raise BadParameter("fresh", "given", reason, "give budget.id too")


def load_signing_key(workload: PlanOptions, fresh: bool, key: "str | PathLike[str] | None") -> Any:
    """Return the key of the plan's ledger, None without one. Refuse `fresh` where a retry would be charged again."""
    check_fresh(workload, fresh)
    return None if workload.ledger is None else load_key(resolve_key_path(workload.ledger, key))


def certify(tabulation: Tabulated, signing_key: Any) -> dict[str, Any]:
    """Return the certificate of the measurements (release.json)."""
    account, reference = tabulation.plan.session.account, tabulation.reference
    if not isinstance(account, LedgerAccount):
        raise BadParameter("tabulation", "not recorded", "only a ledger's answers have a certificate", "use a ledger")
    return make_certificate(
        account, reference.entry, measurement=reference.measurement, answer=reference.record,
        software=f"discreet {version('discreet')}", key=signing_key, tainted=tabulation.tainted,
    )  # fmt: skip


def write_papers(folder: Path, text: str, guarantee: str, certificate: dict[str, Any] | None) -> None:
    """Write the certificate, the plan and the guarantee page, which is last: a folder that has one is complete."""
    if certificate is not None:
        _write_text(folder / CERTIFICATE_FILE, json.dumps(certificate, ensure_ascii=False, indent=1) + "\n")
    if text:
        _write_text(folder / PLAN_FILE, text)
    _write_text(folder / GUARANTEE_FILE, guarantee)


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")
