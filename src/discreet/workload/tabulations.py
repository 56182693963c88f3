"""`publish` of a plan that has tables in place of queries: they add up, and are paid for with one debit.

    source = "people.csv"                  # as in every plan: unit, keys, bounds, [budget], title, confidence
    where = "age >= 18"                    # optional: a condition in SQL
    weight = "w"                           # optional: a column that is added up in place of a count of rows
    [computed]
    decade = "age // 10"                   # optional: columns that are computed, as SQL
    [tables.pyramid]
    by = ["decade", "sex"]
    weight = 2                             # or error = 25, in every table

read → plan → charge, measure and record → write: the same steps as for queries. The folder holds the tables, the noisy
measurements that they are estimated from (`tabulation/files.py`), the guarantee in words and, with a ledger, the certificate
of the measurements.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

from discreet.errors import DiscreetError, Problems
from discreet.folders import create_folder, resolve_folder
from discreet.ledger.account import Account
from discreet.noise import Bits
from discreet.session.executor import RunOptions
from discreet.session.session import Session
from discreet.tabulation.files import Measurements, write_tables
from discreet.tabulation.plan import TabulationPlan, plan_tabulation
from discreet.tabulation.tabulation import Tabulation, execute_tabulation
from discreet.tabulation.wanted import WantedTable, list_table_problems, read_wanted
from discreet.workload.accounts import find_account
from discreet.workload.table_pages import Statement, format_table_page
from discreet.workload.tabulated import (
    GUARANTEE_FILE,
    PlanParts,
    TabulationOptions,
    certify,
    load_signing_key,
    read_workload,
    write_papers,
)

TABLE_FIELDS = {"by", "weight", "error"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableWorkload(TabulationOptions):
    """One source with its options, several tables that add up, one budget.

    >>> TableWorkload(source="people.csv", unit="id", epsilon=1, delta=1e-6, tables=())
    Traceback (most recent call last):
    discreet.errors.BadParameter: tables is empty: no table is wanted. Write [tables.NAME] and by = ["column"].
    """

    tables: tuple[WantedTable, ...]

    def _check_names(self) -> None:
        problems = Problems()
        with problems.collect():
            super(TableWorkload, self)._check_names()
        problems.found += list_table_problems(self.tables)
        problems.raise_all()

    def plan(self, account: "tuple[Account, Fraction] | None" = None) -> TabulationPlan:
        """Open the source and the account, unless it is given, and find the noise. Nothing is charged and no row is read.

        Raises:
            PlanRefused: it has several problems, of the account, the source or the tables; all are listed.
        """

        def find() -> TabulationPlan:
            session = self.open_session(find_account(self)[0] if account is None else account)
            return self._plan(session, self.tables, self.computed, self.where)

        return self.list_all_problems(find, account)

    def _plan(
        self, session: Session, tables: Sequence[WantedTable], computed: Mapping[str, str], where: str | None
    ) -> TabulationPlan:
        return plan_tabulation(
            session, tables, epsilon=self.epsilon, delta=self.certified_delta(session), columns=computed, where=where,
            weight=self.weight, confidence=self.confidence,
        )  # fmt: skip

    def _collect_table_problems(self, session: Session | None, problems: Problems) -> None:
        if session is not None:
            self._collect_column_problems(session, problems)

    def _plan_sound_tables(self, session: Session, tables: Sequence[WantedTable]) -> None:
        def is_sound(table: WantedTable) -> bool:
            with suppress(DiscreetError):
                read_wanted(session, [table], columns=self._pick_computed([table]), weight=self.weight)
                return True
            return False

        sound = [table for table in tables if is_sound(table)]
        self._plan(session, sound, self._pick_computed(sound), None)


def read_table_workload(path: "str | PathLike[str]", beside: "str | PathLike[str] | None" = None) -> TableWorkload:
    """Read a plan.toml with tables. Its paths are relative to the file, or to the folder `beside`.

    Raises:
        BadParameter: the plan has a problem.
        PlanRefused: it has several, which are listed.
    """
    return read_workload(path, beside, _parse_workload)


def _parse_workload(plan: dict[str, Any], text: str, beside: Path, problems: Problems) -> TableWorkload | None:
    parts = PlanParts.parse(plan, text, beside, problems, set(), TABLE_FIELDS)
    tables = []
    for name, found in parts.tables.items():
        checks = {key: partial(_read_number, name, key) for key in ("weight", "error")}
        sound = {key: parts.read_field(name, key, check) for key, check in checks.items()}
        if "by" in found:
            tables.append(WantedTable(found["by"], name, **{key: each for key, each in sound.items() if each is not None}))
    return parts.build(TableWorkload, tables, WantedTable((), "none"))


def _read_number(table: str, key: str, value: Any) -> Any:
    return getattr(WantedTable((), table, **{key: value}), key)


@dataclass(frozen=True, slots=True)
class TablePublication:
    """The folder of a published tabulation."""

    folder: Path
    tabulation: Tabulation

    @property
    def free(self) -> bool:
        """Whether the ledger had recorded the measurements, and nothing was charged now."""
        return not self.tabulation.charged


def publish_tables(
    plan: "TableWorkload | str | PathLike[str]",
    to: "str | PathLike[str]",
    *,
    solved: TabulationPlan | None = None,
    force: bool = False,
    fresh: bool = False,
    key: "str | PathLike[str] | None" = None,
    spreadsheet: bool = False,
    bits: Bits | None = None,
    progress: Callable[[float], None] | None = None,
) -> TablePublication:
    """Tabulate with one debit, and write tables, measurements, guarantee page and certificate into a new folder.

    The options are those of `publish`. `solved` is the plan, if it was found before.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     published = publish_tables("examples/tables.toml", f"{name}/people")
    ...     sorted(path.name for path in published.folder.glob("dept*"))
    ['dept.csv', 'dept.parquet', 'dept_decade.csv', 'dept_decade.parquet']
    """
    workload = plan if isinstance(plan, TableWorkload) else read_table_workload(plan)
    found = workload.plan() if solved is None else solved
    signing_key = load_signing_key(workload, fresh, key)
    folder = resolve_folder(Path(to))
    with create_folder(folder, GUARANTEE_FILE, force=force) as place:
        tabulation = execute_tabulation(found, RunOptions(bits, progress, workload.id, fresh))
        write_tables(place, tabulation.tables, spreadsheet=spreadsheet)
        Measurements.of(tabulation).write(place)
        certificate = None if signing_key is None else certify(tabulation, signing_key)
        stated = Statement.of(tabulation, found.wanted.bounded, certificate)
        page = format_table_page(
            workload.title, stated, tabulation.tables, found.wanted.columns, found.wanted.bounded.keys.columns, found.noises,
            found.step,
        )  # fmt: skip
        write_papers(place, workload.text, page, certificate)
    return TablePublication(folder, tabulation)
