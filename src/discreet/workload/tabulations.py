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
from dataclasses import dataclass, field, fields
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any

from discreet._numbers import format_up, read_decimal
from discreet.errors import BadParameter, DiscreetError, Problems
from discreet.folders import create_folder, resolve_folder
from discreet.ledger.account import Account
from discreet.noise import Bits
from discreet.query.cells import describe_total, explain_cells, explain_weight
from discreet.session.connect import open_account, open_session
from discreet.session.executor import RunOptions
from discreet.session.options import SourceOptions
from discreet.tabulation.files import DESCRIPTION_FILE, MEASUREMENTS_FILE, Measurements, write_tables
from discreet.tabulation.intervals import CountNoise
from discreet.tabulation.margins import Margin
from discreet.tabulation.measuring import noise_to_json
from discreet.tabulation.plan import TabulationPlan, plan_tabulation
from discreet.tabulation.tables import TabulatedTable
from discreet.tabulation.tabulation import Tabulation, execute_tabulation
from discreet.tabulation.wanted import WantedTable, list_table_problems, read_wanted
from discreet.text import escape_markdown, format_markdown_code
from discreet.workload.accounts import find_account
from discreet.workload.guarantee import published_point
from discreet.workload.spec import NAME_PATTERN, PLACEHOLDERS, parse_fields, parse_options, prefix_errors
from discreet.workload.tabulated import (
    GUARANTEE_FILE,
    TabulationOptions,
    certify,
    describe_provenance,
    format_measured,
    format_page,
    has_section,
    load_signing_key,
    read_columns,
    read_computed,
    read_workload,
    require_table,
    write_papers,
)

OWN_KEYS = {"tables", "computed", "where", "weight"}
TABLE_FIELDS = {"by", "weight", "error"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableWorkload(TabulationOptions):
    """One source with its options, several tables that add up, one budget.

    >>> TableWorkload(source="people.csv", unit="id", epsilon=1, delta=1e-6, tables=())
    Traceback (most recent call last):
    discreet.errors.BadParameter: tables is empty: no table is wanted. Write [tables.NAME] and by = ["column"].
    """

    tables: tuple[WantedTable, ...]
    computed: Mapping[str, str] = field(default_factory=dict)
    where: str | None = None
    weight: str | None = None

    def _check_names(self) -> None:
        if not self.tables:
            raise BadParameter("tables", "empty", "no table is wanted", 'write [tables.NAME] and by = ["column"]')
        Problems([*_list_name_problems(self.tables), *list_table_problems(self.tables)]).raise_all()

    def plan(self, account: "tuple[Account, Fraction] | None" = None) -> TabulationPlan:
        """Open the source and the account, unless it is given, and find the noise. Nothing is charged and no row is read."""
        session = self.open_session(find_account(self)[0] if account is None else account)
        return plan_tabulation(
            session, self.tables, epsilon=self.epsilon, delta=self.certified_delta(session), columns=self.computed,
            where=self.where, weight=self.weight, confidence=self.confidence,
        )  # fmt: skip


def _list_name_problems(tables: Sequence[WantedTable]) -> list[DiscreetError]:
    """What is wrong with the names of tables, which are names of files."""
    problems: list[DiscreetError] = []
    for table in tables:
        if not NAME_PATTERN.fullmatch(table.name):
            hint = "take up to 60 letters, digits, - and _, beginning with a letter or digit"
            problems.append(BadParameter(f"tables.{table.name}", "given", "a table's name is also that of its files", hint))
        elif table.name.lower() == Path(DESCRIPTION_FILE).stem:
            reason = "a file of every tabulation has this name"
            problems.append(BadParameter(f"tables.{table.name}", "given", reason, "take another"))
    return problems


def has_tables(path: "str | PathLike[str]") -> bool:
    """Whether a plan.toml has tables in place of queries. What is wrong with it is said when it is read."""
    return has_section(path, "tables")


def read_table_workload(path: "str | PathLike[str]", beside: "str | PathLike[str] | None" = None) -> TableWorkload:
    """Read a plan.toml with tables. Its paths are relative to the file, or to the folder `beside`.

    Raises:
        BadParameter: the plan has a problem.
        PlanRefused: it has several, which are listed.
    """
    return read_workload(path, beside, parse_table_workload)


def parse_table_workload(plan: dict[str, Any], text: str, beside: Path, problems: Problems) -> TableWorkload | None:
    """Read a plan as far as it is sound, and collect every problem."""
    if "questions" in plan:
        with problems.collect():
            raise BadParameter(
                "questions", "given with tables", "tables add up among themselves, and not with other queries",
                "write one plan for the tables, and one for the queries",
            )  # fmt: skip
    top, budget = parse_options(
        {name: each for name, each in plan.items() if name != "questions"}, OWN_KEYS, beside, problems
    )
    own = {name: top.pop(name) for name in OWN_KEYS & top.keys()}
    tables: list[WantedTable] = []
    for name, given in require_table(own.get("tables", {}), "tables", problems).items():
        tables += _parse_table(name, given, beside, problems)
    computed = read_computed(own, problems)
    asked: dict[str, Any] = {"computed": computed, "where": own.get("where"), "weight": own.get("weight")}
    workload = None
    with problems.collect():
        stand_in = () if tables or not problems.found else (WantedTable((), "none"),)
        workload = TableWorkload(tables=(*tables, *stand_in), text=text, **asked, **top, **budget)
    if problems.found:
        _look_at_source(tables, asked, top, problems)
        return None
    return workload


def _parse_table(name: str, given: Any, beside: Path, problems: Problems) -> list[WantedTable]:
    """Return a table, with what is sound of it; nothing if its columns are not."""
    found = parse_fields(given, f"tables.{name}", TABLE_FIELDS, beside, problems)
    by: tuple[str, ...] | None = None
    with problems.collect(), prefix_errors(f"tables.{name}"):
        by = WantedTable(read_columns(found.get("by"))).by
    sound: dict[str, Any] = {}
    for key in TABLE_FIELDS & found.keys() - {"by"}:
        with problems.collect(), prefix_errors(f"tables.{name}"):
            sound[key] = getattr(WantedTable((), name, **{key: found[key]}), key)
    return [] if by is None else [WantedTable(by, name, **sound)]


def _look_at_source(tables: list[WantedTable], asked: dict[str, Any], top: dict[str, Any], problems: Problems) -> None:
    """Collect what is wrong with a refused plan beyond its file: its source, its columns, its condition. Nothing is read."""
    if top.get("source") is PLACEHOLDERS["source"] or not tables:
        return
    options = SourceOptions(**{each.name: top[each.name] for each in fields(SourceOptions) if each.name in top})
    with problems.collect():
        session = open_session(options, *open_account(1, Fraction(1, 10**6), None, None, None))
        texts = {name: text for name, text in asked["computed"].items() if isinstance(text, str)}
        where, weight = (asked[name] if isinstance(asked[name], str) else None for name in ("where", "weight"))
        numbered = [WantedTable(table.by, f"table_{i}") for i, table in enumerate(tables)]  # their names were looked at
        read_wanted(session, numbered, columns=texts, where=where, weight=weight)


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
        page = format_table_guarantee(workload.title, tabulation, certificate)
        write_papers(place, workload.text, page, certificate)
    return TablePublication(folder, tabulation)


# -- the guarantee page -----------------------------------------------------------------------------------------------------


def format_table_guarantee(title: str, tabulation: Tabulation, certificate: dict[str, Any] | None) -> str:
    """Write the guarantee page of a tabulation."""
    plan = tabulation.plan
    sections = [
        _describe_reading(tabulation),
        *describe_files(tabulation.tables, plan.wanted.columns, plan.noises),
        describe_provenance(tabulation, certificate, sum_over="its tables", drawn="as integers"),
    ]
    notes = [explain_cells(plan.wanted.bounded), *plan.session.list_notes(grouped=bool(plan.wanted.columns))]
    bounding = "Before anything was added up, and once for all tables:\n\n" + "\n".join(
        f"- {escape_markdown(note)}" for note in notes
    )
    return format_page(title, plan.session, published_point(tabulation.cost), len(tabulation), bounding, sections)


def _describe_reading(tabulation: Tabulation) -> str:
    confidence = f"{format_up(100 * read_decimal(tabulation.plan.confidence), 4)}%"
    bounded = tabulation.plan.wanted.bounded
    return (
        "## How to read the tables\n\n"
        "`estimate` is the least-squares estimate from all measured tables: it is unbiased, may be negative, and the "
        "estimates of all tables add up. `sd` is the standard deviation of its noise. The interval from `lower` to `upper` "
        f"contains {escape_markdown(describe_total(bounded))} with probability ≥ {confidence}; that is proven for the noise "
        "that was drawn, and holds for each cell by itself. `reliable` is true if the half-width is at most a tenth of the "
        "estimate.\n\n" + "\n\n".join([*explain_weight(bounded), tabulation.display_note])
    )


def describe_files(
    tables: Mapping[str, TabulatedTable], columns: Sequence[str], noises: Mapping[Margin, CountNoise]
) -> tuple[str, str]:
    """Say which tables there are, and with which noise they were measured: what anybody can say who has the measurements."""
    return _describe_tables(tables), _describe_measured(columns, noises)


def _describe_tables(tables: Mapping[str, TabulatedTable]) -> str:
    lines = ["## The tables\n", "| table | by | cells | reliable | sd | half-width |", "|---|---|---:|---:|---:|---:|"]
    for name, table in tables.items():
        by = ", ".join(map(format_markdown_code, table.columns)) or "everybody"
        reliable = int(table.reliable.sum())
        lines.append(
            f"| [{name}]({name}.csv) | {by} | {len(table):,} | {reliable:,} | {table.sd:.4g} | {table.half_width:.4g} |"
        )
    return "\n".join(lines)


def _describe_measured(columns: Sequence[str], noises: Mapping[Margin, CountNoise]) -> str:
    lines = [
        "## What was measured\n",
        f"`{MEASUREMENTS_FILE}` holds the noisy tables that were paid for, and `{DESCRIPTION_FILE}` says what they are. "
        "`discreet reproduce FOLDER` estimates all tables again from these two files alone.\n",
        "| measured by | noise | σ |",
        "|---|---|---:|",
    ]
    measured = ({"margin": margin, **noise_to_json(noise)} for margin, noise in noises.items())
    lines += [f"| {format_measured(each, columns)}" for each in measured]
    return "\n".join(lines)
