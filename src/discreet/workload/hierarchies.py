"""`publish` of a plan with a hierarchy: tables on all its levels that add up, paid for with one debit.

    source = "people.parquet"              # as in every plan: unit, keys, bounds, [budget], title, confidence
    [hierarchy]
    geo = "nation > state > county > block"
    nodes = "geography.parquet"            # the public list of nodes: empty ones get noise too
    column = "geocode"                     # with lengths: the levels are the first characters of this code
    lengths = [0, 2, 5, 11]
    weigh = "level"                        # or "node", or a number for each level
    [tables.pyramid]
    by = ["decade", "sex"]
    levels = "all"                         # or a list of levels
    weight = 2                             # or error = 25, or error = {county = 25, block = 60}, in every table
    [regions]
    lakeside = ["0100100001", "0100100002"]
    [measure.county]                       # optional: σ of what is measured on each level, in place of an allocation
    pyramid = "7/2"

read → plan → bind the debit to the folder, charge, measure and record → write. Unlike other publications, the folder has its
name from the beginning: its measurements are drawn once, and an interrupted publication is continued in it
(`tabulation/spool.py`). It is complete when it has a guarantee.md.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from discreet._numbers import Number, format_up, read_decimal
from discreet.errors import BadParameter, Problems
from discreet.folders import resolve_folder
from discreet.noise import Bits
from discreet.query.cells import explain_cells
from discreet.session.executor import RunOptions
from discreet.tabulation.hierarchical import HierarchyTabulation, execute_hierarchy
from discreet.tabulation.hierarchy import Hierarchy, LevelTable
from discreet.tabulation.hierarchy_files import MEASUREMENTS_FOLDER
from discreet.tabulation.hierarchy_plan import FixedNoise, HierarchyPlan, Weigh, plan_hierarchy
from discreet.tabulation.tables import DISPLAY_NOTE, NO_DISPLAY_NOTE
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

OWN_KEYS = {"hierarchy", "tables", "computed", "where", "weight", "regions", "measure"}
HIERARCHY_FIELDS = {"geo", "nodes", "column", "lengths", "weigh", "stream"}
TABLE_FIELDS = {"by", "levels", "weight", "error"}


@dataclass(frozen=True, slots=True, kw_only=True)
class HierarchyWorkload(PlanOptions):
    """One source with its options, a hierarchy, tables on its levels, one budget."""

    geo: str
    nodes: Any
    tables: tuple[LevelTable, ...]
    column: str | None = None
    lengths: tuple[int, ...] | None = None
    weigh: Weigh | Mapping[str, Number] = "level"
    stream: str | None = None
    computed: Mapping[str, str] = field(default_factory=dict)
    where: str | None = None
    weight: str | None = None
    regions: Mapping[str, Any] = field(default_factory=dict)
    measure: FixedNoise | None = None

    def _check_names(self) -> None:
        check_table_names(table.name for table in self.tables)

    def plan(self) -> HierarchyPlan:
        """Open the source and the account, and find the noise. Nothing is charged and no row is read."""
        problems = Problems()
        with problems.collect(), prefix_errors("hierarchy"):
            hierarchy = Hierarchy.read(self.geo, self.nodes, column=self.column, lengths=self.lengths)
        with problems.collect():
            session = self.open_session()
        problems.raise_all()
        counts_epsilon = session.account.budget.currency.counts_epsilon
        return plan_hierarchy(
            session, hierarchy, self.tables, epsilon=self.epsilon, delta=self.delta if counts_epsilon else None,
            measure=self.measure, weigh=self.weigh, regions=self.regions, columns=self.computed, where=self.where,
            weight=self.weight, confidence=self.confidence, stream_level=self.stream,
        )  # fmt: skip


def has_hierarchy(path: "str | PathLike[str]") -> bool:
    """Whether a plan.toml has a hierarchy. What is wrong with it is said when it is read."""
    return has_section(path, "hierarchy")


def read_hierarchy_workload(path: "str | PathLike[str]", beside: "str | PathLike[str] | None" = None) -> HierarchyWorkload:
    """Read a plan.toml with a hierarchy. Its paths are relative to the file, or to the folder `beside`.

    Raises:
        BadParameter: the plan has a problem.
        PlanRefused: it has several, which are listed.
    """
    return read_workload(path, beside, _parse_workload)


def _parse_workload(plan: dict[str, Any], text: str, beside: Path, problems: Problems) -> HierarchyWorkload | None:
    top, budget = parse_options(plan, OWN_KEYS, beside, problems)
    own = {name: top.pop(name) for name in OWN_KEYS & top.keys()}
    geography = parse_fields(own.pop("hierarchy", {}), "hierarchy", HIERARCHY_FIELDS, beside, problems)
    for name in ("geo", "nodes"):
        if name not in geography:
            with problems.collect():
                hint = 'write geo = "nation > state > county"' if name == "geo" else 'write nodes = "geography.csv"'
                raise BadParameter(f"hierarchy.{name}", "missing", "a hierarchy needs it", hint)
    tables: list[LevelTable] = []
    for name, fields in require_table(own.get("tables", {}), "tables", problems).items():
        with problems.collect(), prefix_errors(f"tables.{name}"):
            found = parse_fields(fields, f"tables.{name}", TABLE_FIELDS, beside, problems)
            by, levels = read_columns(found.get("by")), found.get("levels", "all")
            if not isinstance(levels, str) and not (isinstance(levels, list) and all(isinstance(x, str) for x in levels)):
                raise BadParameter("levels", repr(levels), "not a list of levels", 'write levels = ["county"], or "all"')
            some = levels if isinstance(levels, str) else tuple(levels)
            tables.append(LevelTable(by, some, name, found.get("weight", 1), found.get("error")))
    computed = read_computed(own, problems)
    regions = require_table(own.get("regions", {}), "regions", problems)
    measure = require_table(own["measure"], "measure", problems) if "measure" in own else None
    for level, sigmas in (measure or {}).items():
        require_table(sigmas, f"measure.{level}", problems)
    if isinstance(geography.get("nodes"), str):
        geography["nodes"] = beside / geography["nodes"]
    if not problems.found:
        with problems.collect():
            return HierarchyWorkload(
                tables=tuple(tables), computed=computed, where=own.get("where"), weight=own.get("weight"), regions=regions,
                measure=measure, text=text, **geography, **top, **budget,
            )  # fmt: skip
    if {"geo", "nodes"} <= geography.keys():  # what is wrong with the hierarchy is said at once with the rest
        with problems.collect(), prefix_errors("hierarchy"):
            Hierarchy.read(**{name: geography.get(name) for name in ("geo", "nodes", "column", "lengths")})  # type: ignore[arg-type]
    return None


@dataclass(frozen=True, slots=True)
class HierarchyPublication:
    """The folder of a published hierarchy."""

    folder: Path
    tabulation: HierarchyTabulation

    @property
    def free(self) -> bool:
        """Whether the ledger had recorded the measurements, and nothing was charged now."""
        return not self.tabulation.charged


def publish_hierarchy(
    plan: "HierarchyWorkload | str | PathLike[str]",
    to: "str | PathLike[str]",
    *,
    solved: HierarchyPlan | None = None,
    force: bool = False,
    fresh: bool = False,
    key: "str | PathLike[str] | None" = None,
    bits: Bits | None = None,
    progress: Callable[[float], None] | None = None,
) -> HierarchyPublication:
    """Measure with one debit into a folder, and write tables, guarantee page and certificate into it.

    A folder in which the same plan was begun is continued. `force` writes the tables of a complete publication again, from
    the same measurements; these are never replaced.
    """
    workload = plan if isinstance(plan, HierarchyWorkload) else read_hierarchy_workload(plan)
    found = workload.plan() if solved is None else solved
    signing_key = load_signing_key(workload, fresh, key)
    folder = resolve_folder(Path(to))
    _check_folder(folder, force)
    tabulation = execute_hierarchy(found, folder, RunOptions(bits, progress, workload.id, fresh))
    tabulation.write()
    certificate = None if signing_key is None else certify(tabulation, signing_key)
    page = format_hierarchy_guarantee(workload.title, tabulation, certificate)
    write_papers(folder, workload.text, page, certificate)
    return HierarchyPublication(folder, tabulation)


def _check_folder(folder: Path, force: bool) -> None:
    """Refuse a folder that exists, but for one in which a publication was begun, or may be written again."""
    if not folder.exists():
        return
    if (folder / GUARANTEE_FILE).exists() and not force:
        raise BadParameter("folder", str(folder), "it exists", "name another folder, or write it again with force=True")
    if not (folder / MEASUREMENTS_FOLDER).is_dir() and any(folder.iterdir()):
        raise BadParameter("folder", str(folder), "it exists, and holds no measurements", "name another folder")


# -- the guarantee page -----------------------------------------------------------------------------------------------------


def format_hierarchy_guarantee(title: str, tabulation: HierarchyTabulation, certificate: dict[str, Any] | None) -> str:
    """Write the guarantee page of a hierarchy."""
    plan = tabulation.plan
    spine = plan.wanted.hierarchy.spine
    levels = ", ".join(
        f"{size:,} of {format_markdown_code(level)}" for level, size in zip(spine.levels, spine.sizes, strict=True)
    )
    confidence = f"{format_up(100 * read_decimal(plan.confidence), 4)}%"
    sections = [
        "## How to read the tables\n\n"
        f"Nodes, from the top down: {levels}. Their list is public; rows that lie in none of them are not counted. "
        "`estimate` is the least-squares estimate from all measured tables of all levels: it is unbiased, may be negative, "
        "and estimates add up over tables and levels. `sd` is the standard deviation of its noise. The interval from "
        f"`lower` to `upper` contains the count of the rows that are kept with probability ≥ {confidence}; that is proven "
        "for the noise that was drawn, and holds for each cell by itself.\n\n"
        f"{escape_markdown(DISPLAY_NOTE if plan.model.display_columns else NO_DISPLAY_NOTE)}",
        _describe_tables(plan),
        _describe_measured(plan, tabulation),
        describe_provenance(tabulation, certificate, sum_over="levels and tables", drawn="as integers, once"),
    ]
    bounding = (
        "Before anything was added up, and once for all levels and tables:\n\n"
        f"- {escape_markdown(explain_cells(plan.wanted.bounded))}"
    )
    tables = sum(len(each) for each in plan.wanted.by_level)
    return format_page(title, plan.session, published_point(tabulation.cost), tables, bounding, sections)


def _describe_tables(plan: HierarchyPlan) -> str:
    lines = ["## The tables\n", "| table | level | by | half-width |", "|---|---|---|---:|"]
    model = plan.model
    for name, (margin, levels) in model.tables.items():
        by = ", ".join(format_markdown_code(model.columns[i]) for i in margin) or "everybody"
        for level in levels:
            widths = model.list_half_widths(level, margin) * float(model.step)
            shown = f"{widths.min():.4g}" if widths.min() == widths.max() else f"{widths.min():.4g} to {widths.max():.4g}"
            place = model.spine.levels[level]
            lines.append(f"| [{name}]({name}.{place}.parquet) | {format_markdown_code(place)} | {by} | {shown} |")
    if model.region_names:
        lines.append(f"\nTables of regions that are no node: {', '.join(map(format_markdown_code, model.region_names))}.")
    return "\n".join(lines)


def _describe_measured(plan: HierarchyPlan, tabulation: HierarchyTabulation) -> str:
    columns = plan.wanted.columns
    lines = [
        "## What was measured\n",
        f"`{MEASUREMENTS_FOLDER}/` holds the noisy tables that were paid for; their Merkle root is `{tabulation.root}`. "
        "`discreet reproduce FOLDER` estimates all tables again from them alone.\n",
        "| level | measured by | noise | σ |",
        "|---|---|---|---:|",
    ]
    for each in plan.describe()["measured"]:
        lines.append(f"| {format_markdown_code(each['level'])} | {format_measured(each, columns)}")
    return "\n".join(lines)
