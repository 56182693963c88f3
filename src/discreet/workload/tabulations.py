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

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any

from discreet._numbers import format_up, read_decimal
from discreet.errors import BadParameter, DiscreetError
from discreet.folders import create_folder, resolve_folder
from discreet.ledger.certificate import make_certificate
from discreet.ledger.chain import LedgerAccount
from discreet.ledger.keys import load_key, resolve_key_path
from discreet.noise import Bits
from discreet.query.cells import explain_cells
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
from discreet.tabulation.wanted import WantedTable, list_table_problems, raise_problems, read_wanted
from discreet.text import escape_markdown, format_markdown_code
from discreet.workload.guarantee import (
    CHARGED,
    describe_account,
    describe_guarantee,
    describe_limits,
    describe_meaning,
    published_point,
)
from discreet.workload.spec import (
    NAME_PATTERN,
    PLACEHOLDERS,
    PlanOptions,
    Problems,
    load_toml,
    parse_fields,
    parse_options,
    prefix_errors,
    read_plan_file,
)

GUARANTEE_FILE, CERTIFICATE_FILE, PLAN_FILE = "guarantee.md", "release.json", "plan.toml"
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
        if not self.tables:
            raise BadParameter("tables", "empty", "no table is wanted", 'write [tables.NAME] and by = ["column"]')
        raise_problems([*_list_name_problems(self.tables), *list_table_problems(self.tables)])

    def check_fresh(self) -> None:
        """Refuse new noise for a plan whose retry would draw it again."""
        if self.ledger is None or self.id is None:
            reason = "without an id a retry cannot be distinguished from a new publication"
            raise BadParameter("fresh", "given", reason, "give budget.id too")

    def plan(self) -> TabulationPlan:
        """Open the source and the account, and find the noise. Nothing is charged and no row is read."""
        session = self.open_session()
        counts_epsilon = session.account.budget.currency.counts_epsilon
        return plan_tabulation(
            session, self.tables, epsilon=self.epsilon, delta=self.delta if counts_epsilon else None, columns=self.computed,
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
    plan = load_toml(read_plan_file(path), str(path), Problems())
    return plan is not None and "tables" in plan


def read_table_workload(path: "str | PathLike[str]", beside: "str | PathLike[str] | None" = None) -> TableWorkload:
    """Read a plan.toml with tables. Its paths are relative to the file, or to the folder `beside`.

    Raises:
        BadParameter: the plan has a problem.
        PlanRefused: it has several, which are listed.
    """
    text, problems = read_plan_file(path), Problems()
    plan = load_toml(text, str(path), problems)
    if plan is None:
        problems.raise_all()
    assert plan is not None
    workload = parse_table_workload(plan, text, Path(path).parent if beside is None else Path(beside), problems)
    problems.raise_all()
    assert workload is not None
    return workload


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
    for name, given in _require_table(own.get("tables", {}), "tables", problems).items():
        tables += _parse_table(name, given, beside, problems)
    computed = _require_table(own.get("computed", {}), "computed", problems)
    for key, value in [*((f"computed.{name}", each) for name, each in computed.items()),
                       *((name, own[name]) for name in ("where", "weight") if name in own)]:  # fmt: skip
        if not isinstance(value, str) or not value:
            with problems.collect():
                raise BadParameter(key, repr(value), "not a text", f'write {key.rpartition(".")[2]} = "…"')
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
        by = WantedTable(_read_columns(found.get("by"))).by
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


def _require_table(value: Any, key: str, problems: Problems) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    with problems.collect():
        raise BadParameter(key, repr(value), "not a table", f"write [{key}]")
    return {}


def _read_columns(by: Any) -> tuple[str, ...]:
    if isinstance(by, str):
        return (by,)
    if not isinstance(by, list) or not all(isinstance(name, str) for name in by):
        raise BadParameter("by", repr(by), "not a list of columns", 'write by = ["sex", "age"], or by = [] for the total')
    return tuple(by)


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
    if fresh:
        workload.check_fresh()
    signing_key = None if workload.ledger is None else load_key(resolve_key_path(workload.ledger, key))
    folder = resolve_folder(Path(to))
    with create_folder(folder, GUARANTEE_FILE, force=force) as place:
        tabulation = execute_tabulation(found, RunOptions(bits, progress, workload.id, fresh))
        write_tables(place, tabulation.tables, spreadsheet=spreadsheet)
        Measurements.of(tabulation).write(place)
        certificate = None if signing_key is None else certify_tabulation(tabulation, signing_key)
        if certificate is not None:
            _write_text(place / CERTIFICATE_FILE, json.dumps(certificate, ensure_ascii=False, indent=1) + "\n")
        if workload.text:
            _write_text(place / PLAN_FILE, workload.text)
        _write_text(place / GUARANTEE_FILE, format_table_guarantee(workload.title, tabulation, certificate))
    return TablePublication(folder, tabulation)


def certify_tabulation(tabulation: Tabulation, signing_key: Any) -> dict[str, Any]:
    """Return the certificate of the measurements (release.json)."""
    account, reference = tabulation.plan.session.account, tabulation.reference
    if not isinstance(account, LedgerAccount):
        raise BadParameter("tabulation", "not recorded", "only a ledger's answers have a certificate", "use a ledger")
    return make_certificate(
        account, reference.entry, measurement=reference.measurement, answer=reference.record,
        software=f"discreet {version('discreet')}", key=signing_key, tainted=tabulation.tainted,
    )  # fmt: skip


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")


# -- the guarantee page -----------------------------------------------------------------------------------------------------


def format_table_guarantee(title: str, tabulation: Tabulation, certificate: dict[str, Any] | None) -> str:
    """Write the guarantee page of a tabulation."""
    plan = tabulation.plan
    session, point = plan.session, published_point(tabulation.cost)
    parts = [
        f"# {escape_markdown(title or 'A tabulation')}: privacy guarantee",
        describe_guarantee(session, point, len(tabulation)),
        describe_meaning(session, point),
        "## Contribution bounding\n\nBefore anything was added up, and once for all tables:\n\n"
        f"- {escape_markdown(explain_cells(plan.wanted.bounded))}"
        + "".join(f"\n- {escape_markdown(note)}" for note in session.list_notes(grouped=bool(plan.wanted.columns))),
        describe_limits(session, point),
        _describe_reading(tabulation),
        *describe_files(tabulation.tables, plan.wanted.columns, plan.noises),
        _describe_provenance(tabulation, certificate),
    ]
    return "\n\n".join(parts) + "\n"


def _describe_reading(tabulation: Tabulation) -> str:
    confidence = f"{format_up(100 * read_decimal(tabulation.plan.confidence), 4)}%"
    return (
        "## How to read the tables\n\n"
        "`estimate` is the least-squares estimate from all measured tables: it is unbiased, may be negative, and the "
        "estimates of all tables add up. `sd` is the standard deviation of its noise. The interval from `lower` to `upper` "
        f"contains the count of the rows that are kept with probability ≥ {confidence}; that is proven for the noise that "
        "was drawn, and holds for each cell by itself. `reliable` is true if the half-width is at most a tenth of the "
        "estimate.\n\n"
        f"{escape_markdown(tabulation.display_note)}"
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
    for margin, noise in noises.items():
        by = ", ".join(format_markdown_code(columns[i]) for i in margin) or "everybody"
        lines.append(f"| {by} | {noise_to_json(noise)['law']} | {float(noise.sigma):.6g} |")
    return "\n".join(lines)


def _describe_provenance(tabulation: Tabulation, certificate: dict[str, Any] | None) -> str:
    cost, certified = tabulation.cost, tabulation.plan.terms.certified_delta
    curve = f"by the certified privacy curve of the whole plan at δ = {format_up(certified, 3)}"
    lines = [
        "## How it was made\n",
        f"All noise was fixed before the first row was read, {CHARGED}"
        f"{curve if certified else 'by the sum over its tables'}: {cost.describe_charge()}. "
        "It is drawn exactly, as integers.",
    ]
    if certificate is None:
        lines.append("No ledger records the cost: only the publisher can say how often the data was published.")
    else:
        lines.append(
            "`release.json` is the certificate of the measurements, signed by the ledger; `discreet verify` checks it."
        )
        lines.append(describe_account(certificate, cost, tabulation.plan.session))
    if tabulation.tainted:
        lines.append("\n**Made with seeded bits: for tests, never for publication.**")
    return "\n".join(lines)
