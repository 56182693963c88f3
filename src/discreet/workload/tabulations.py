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

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from discreet._numbers import format_up, read_decimal
from discreet.errors import BadParameter, Problems
from discreet.folders import create_folder, resolve_folder
from discreet.noise import Bits
from discreet.query.cells import explain_cells
from discreet.session.executor import RunOptions
from discreet.tabulation.files import DESCRIPTION_FILE, MEASUREMENTS_FILE, Measurements, write_tables
from discreet.tabulation.plan import TabulationPlan, plan_tabulation
from discreet.tabulation.tabulation import Tabulation, execute_tabulation
from discreet.tabulation.wanted import WantedTable
from discreet.text import escape_markdown, format_markdown_code
from discreet.workload.guarantee import published_point
from discreet.workload.spec import PlanOptions, parse_fields, parse_options, prefix_errors
from discreet.workload.tabulated import (
    GUARANTEE_FILE,
    certify,
    check_table_names,
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
class TableWorkload(PlanOptions):
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
        check_table_names(table.name for table in self.tables)
        if any(table.name.lower() == Path(DESCRIPTION_FILE).stem for table in self.tables):
            raise BadParameter("tables.measurements", "given", "a file of every tabulation has this name", "take another")

    def plan(self) -> TabulationPlan:
        """Open the source and the account, and find the noise. Nothing is charged and no row is read."""
        session = self.open_session()
        counts_epsilon = session.account.budget.currency.counts_epsilon
        return plan_tabulation(
            session, self.tables, epsilon=self.epsilon, delta=self.delta if counts_epsilon else None, columns=self.computed,
            where=self.where, weight=self.weight, confidence=self.confidence,
        )  # fmt: skip


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
    for name, fields in require_table(own.get("tables", {}), "tables", problems).items():
        with problems.collect(), prefix_errors(f"tables.{name}"):
            found = parse_fields(fields, f"tables.{name}", TABLE_FIELDS, beside, problems)
            tables.append(WantedTable(read_columns(found.get("by")), name, found.get("weight", 1), found.get("error")))
    computed = read_computed(own, problems)
    if problems.found:
        return None
    with problems.collect():
        return TableWorkload(
            tables=tuple(tables),
            computed=computed,
            where=own.get("where"),
            weight=own.get("weight"),
            text=text,
            **top,
            **budget,
        )
    return None


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
        _describe_tables(tabulation),
        _describe_measured(plan),
        describe_provenance(tabulation, certificate, sum_over="its tables", drawn="as integers"),
    ]
    bounding = (
        f"Before anything was added up, and once for all tables:\n\n- {escape_markdown(explain_cells(plan.wanted.bounded))}"
    )
    return format_page(title, plan.session, published_point(tabulation.cost), len(tabulation), bounding, sections)


def _describe_reading(tabulation: Tabulation) -> str:
    confidence = f"{format_up(100 * read_decimal(tabulation.plan.confidence), 4)}%"
    *_, shown, _ = tabulation.list_notes()
    return (
        "## How to read the tables\n\n"
        "`estimate` is the least-squares estimate from all measured tables: it is unbiased, may be negative, and the "
        "estimates of all tables add up. `sd` is the standard deviation of its noise. The interval from `lower` to `upper` "
        f"contains the count of the rows that are kept with probability ≥ {confidence}; that is proven for the noise that "
        "was drawn, and holds for each cell by itself. `reliable` is true if the half-width is at most a tenth of the "
        "estimate.\n\n"
        f"{escape_markdown(shown)}"
    )


def _describe_tables(tabulation: Tabulation) -> str:
    lines = ["## The tables\n", "| table | by | cells | reliable | sd | half-width |", "|---|---|---:|---:|---:|---:|"]
    for name, table in tabulation.items():
        by = ", ".join(map(format_markdown_code, table.columns)) or "everybody"
        reliable = int(table.reliable.sum())
        lines.append(
            f"| [{name}]({name}.csv) | {by} | {len(table):,} | {reliable:,} | {table.sd:.4g} | {table.half_width:.4g} |"
        )
    return "\n".join(lines)


def _describe_measured(plan: TabulationPlan) -> str:
    columns = plan.wanted.columns
    lines = [
        "## What was measured\n",
        f"`{MEASUREMENTS_FILE}` holds the noisy tables that were paid for, and `{DESCRIPTION_FILE}` says what they are. "
        "`discreet reproduce FOLDER` estimates all tables again from these two files alone.\n",
        "| measured by | noise | σ |",
        "|---|---|---:|",
    ]
    lines += [f"| {format_measured(each, columns)}" for each in plan.describe()["measured"]]
    return "\n".join(lines)
