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

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, fields
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any

from discreet._numbers import Number
from discreet.errors import BadParameter, Problems
from discreet.folders import resolve_folder
from discreet.ledger.account import Account
from discreet.noise import Bits
from discreet.session.executor import RunOptions
from discreet.session.session import Session
from discreet.tabulation.hierarchical import HierarchyTabulation, execute_hierarchy, resume_hierarchy
from discreet.tabulation.hierarchy import ALL, Hierarchy, LevelTable, check_node_column, is_list
from discreet.tabulation.hierarchy_files import MEASUREMENTS_FOLDER
from discreet.tabulation.hierarchy_plan import FixedNoise, HierarchyPlan, Weigh, check_hierarchy_plan, plan_hierarchy
from discreet.workload.accounts import find_account
from discreet.workload.spec import parse_fields, prefix_errors
from discreet.workload.table_pages import Statement, format_hierarchy_page
from discreet.workload.tabulated import (
    GUARANTEE_FILE,
    PlanParts,
    TabulationOptions,
    certify,
    load_signing_key,
    read_workload,
    require_table,
    write_papers,
)

OWN_KEYS = {"hierarchy", "regions", "measure"}
HIERARCHY_FIELDS = {"geo", "nodes", "column", "lengths", "weigh", "stream"}
TABLE_FIELDS = {"by", "levels", "weight", "error"}


@dataclass(frozen=True, slots=True, kw_only=True)
class HierarchyWorkload(TabulationOptions):
    """One source with its options, a hierarchy, tables on its levels, one budget."""

    geo: str | None  # None, as no nodes, only while what is wrong with a plan is looked for
    nodes: Any
    tables: tuple[LevelTable, ...]
    column: str | None = None
    lengths: tuple[int, ...] | None = None
    weigh: Weigh | Mapping[str, Number] = "level"
    stream: str | None = None
    regions: Mapping[str, Any] = field(default_factory=dict)
    measure: FixedNoise | None = None

    def plan(self, account: "tuple[Account, Fraction] | None" = None) -> HierarchyPlan:
        """Open the source and the account, unless it is given, and find the noise. Nothing is charged and no row is read.

        Raises:
            PlanRefused: it has several problems, of the hierarchy, the account, the source or the tables; all are listed.
        """

        def find() -> HierarchyPlan:
            hierarchy = self._read_hierarchy()
            session = self.open_session(find_account(self)[0] if account is None else account)
            return self._plan(session, hierarchy, self.tables, **self._asked)

        return self.list_all_problems(find, account)

    def _plan(self, session: Session, hierarchy: Hierarchy, tables: Sequence[LevelTable], **asked: Any) -> HierarchyPlan:
        return plan_hierarchy(
            session, hierarchy, tables, epsilon=self.epsilon, delta=self.certified_delta(session), **asked
        )  # fmt: skip

    def _read_hierarchy(self) -> Hierarchy:
        with prefix_errors("hierarchy"):
            return Hierarchy.read(**self._geography)

    @property
    def _geography(self) -> dict[str, Any]:
        return {"geo": self.geo, "nodes": self.nodes, "column": self.column, "lengths": self.lengths}

    @property
    def _asked(self) -> dict[str, Any]:
        return {
            "measure": self.measure, "weigh": self.weigh, "regions": self.regions, "columns": self.computed,
            "where": self.where, "weight": self.weight, "confidence": self.confidence, "stream_level": self.stream,
        }  # fmt: skip

    def _collect_table_problems(self, session: Session | None, problems: Problems) -> None:
        hierarchy = None
        with problems.collect_new():
            if self.geo is not None and self.nodes is not None:  # that one is missing was said
                hierarchy = self._read_hierarchy()
            elif self.nodes is not None:
                with prefix_errors("hierarchy"):
                    Hierarchy.check_nodes(self.nodes)
        asked, found = self._asked, Problems()
        if hierarchy is None:
            sound = Hierarchy.read_sound(**self._geography)
            if sound is None:
                self._look_without_nodes(session, problems)
                return
            hierarchy, listed = sound
            asked["regions"] = _list_unknown_nodes(self.regions, hierarchy, listed)
        absent = {each.strip() for each in self.geo.split(">")} - {*hierarchy.levels} if isinstance(self.geo, str) else set()
        tables = _leave_out(self.tables, absent)
        check_hierarchy_plan(session, hierarchy, tables, found, **_leave_out(asked, absent))
        with problems.collect_new():
            found.raise_all()

    def _look_without_nodes(self, session: Session | None, problems: Problems) -> None:
        """Look at levels by themselves, and at columns by themselves."""
        found, known = Problems(), Hierarchy.of_levels(self.geo)
        levels = Hierarchy.of_levels(self._list_mentioned_levels()) if known is None else known
        if levels is not None:
            asked = self._asked | {"regions": _list_unknown_nodes(self.regions, levels, None)}
            check_hierarchy_plan(None, levels, self.tables, found, **asked)
        if session is not None and (column := self.column or (known and known.column)):
            check_node_column(column, session.table.columns, found)
        if session is not None:
            self._collect_column_problems(session, found)
        with problems.collect_new():
            found.raise_all()

    def _list_mentioned_levels(self) -> list[str]:
        """List the levels that a plan names, where it does not say which there are."""
        named = [each.levels for each in self.tables if not isinstance(each.levels, str)]
        mappings = [self.weigh, *self.regions.values(), *(x for each in self.tables for x in (each.weight, each.error))]
        named += [tuple(each) for each in mappings if isinstance(each, Mapping)]
        return [*dict.fromkeys(name for each in named for name in each)] or ["top"]

    def _plan_sound_tables(self, session: Session, tables: Sequence[LevelTable]) -> None:
        hierarchy = self._read_hierarchy()
        alike: dict[str, Any] = {"weight": self.weight, "confidence": self.confidence}

        def is_sound(table: LevelTable) -> bool:
            found = Problems()
            check_hierarchy_plan(session, hierarchy, [table], found, columns=self._pick_computed([table]), **alike)
            return not found.found

        sound = [table for table in tables if is_sound(table)]
        computed = self._pick_computed(sound)
        measure = self.measure if len(sound) == len(self.tables) else None
        if self.measure is None or measure is not None:
            self._plan(session, hierarchy, sound, columns=computed, measure=measure, weigh=self.weigh, **alike)


def _list_unknown_nodes(
    regions: Mapping[str, Any], hierarchy: Hierarchy, listed: "Mapping[str, Set[Any]] | None"
) -> dict[str, Any]:
    """Return regions with the nodes alone that are not in a list, of which a part is refused; without one, with none. What
    is no list of nodes stays as it is."""

    def pick(level: str, nodes: Any) -> Any:
        if not is_list(nodes):
            return nodes
        return [] if listed is None or level not in listed else [each for each in nodes if each not in listed[level]]

    found: dict[str, Any] = {}
    for name, nodes in regions.items():
        by_level = nodes if isinstance(nodes, Mapping) else {hierarchy.levels[-1]: nodes}
        kept = {level: some for level, each in by_level.items() if (some := pick(level, each)) != []}
        if kept or not by_level:
            found[name] = kept if isinstance(nodes, Mapping) else kept[hierarchy.levels[-1]]
    return found


def _leave_out(value: Any, levels: Set[str]) -> Any:
    """Return what a plan says of levels, without some of them."""
    if not levels:
        return value
    match value:
        case LevelTable():
            some = {each.name: _leave_out(getattr(value, each.name), levels) for each in fields(value) if each.name != "by"}
            return LevelTable(value.by, **(some if some["levels"] else some | {"levels": ALL}))
        case dict():
            return {name: _leave_out(each, levels) for name, each in value.items() if name not in levels}
        case tuple() | list():
            return tuple(_leave_out(each, levels) for each in value if not (isinstance(each, str) and each in levels))
        case str() if value in levels:
            return None
        case _:
            return value


def read_hierarchy_workload(path: "str | PathLike[str]", beside: "str | PathLike[str] | None" = None) -> HierarchyWorkload:
    """Read a plan.toml with a hierarchy. Its paths are relative to the file, or to the folder `beside`.

    Raises:
        BadParameter: the plan has a problem.
        PlanRefused: it has several, which are listed.
    """
    return read_workload(path, beside, _parse_workload)


def _parse_workload(plan: dict[str, Any], text: str, beside: Path, problems: Problems) -> HierarchyWorkload | None:
    parts = PlanParts.parse(plan, text, beside, problems, OWN_KEYS, TABLE_FIELDS)
    own, geography = parts.own, parse_fields(parts.own.get("hierarchy", {}), "hierarchy", HIERARCHY_FIELDS, beside, problems)
    for name, example in (("geo", "nation > state > county"), ("nodes", "geography.csv")):
        if name not in geography:
            problems.add(f"hierarchy.{name}", "missing", "a hierarchy needs it", f'write {name} = "{example}"')
            geography[name] = None
    if isinstance(geography["nodes"], str):
        geography["nodes"] = beside / geography["nodes"]
    tables = []
    for name, found in parts.tables.items():
        levels = parts.read_field(name, "levels", _read_levels)
        tables.append(LevelTable(found.get("by", ()), levels or ALL, name, found.get("weight", 1), found.get("error")))
    regions = require_table(own.get("regions", {}), "regions", problems)
    measure = require_table(own["measure"], "measure", problems) if "measure" in own else None
    for level, sigmas in (measure or {}).items():
        require_table(sigmas, f"measure.{level}", problems)
    return parts.build(HierarchyWorkload, tables, LevelTable((), ALL, "none"), regions=regions, measure=measure, **geography)


def _read_levels(levels: Any) -> "str | tuple[str, ...]":
    if isinstance(levels, str):
        return levels
    if not isinstance(levels, list) or not all(isinstance(each, str) for each in levels):
        raise BadParameter("levels", repr(levels), "not a list of levels", 'write levels = ["county"], or "all"')
    return tuple(levels)


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

    A folder in which the same plan was begun is continued: with a ledger from any point, without one once all of it was
    measured. `force` writes the tables of a complete publication again, from
    the same measurements; these are never replaced.
    """
    workload = plan if isinstance(plan, HierarchyWorkload) else read_hierarchy_workload(plan)
    found = workload.plan() if solved is None else solved
    signing_key = load_signing_key(workload, fresh, key)
    folder = resolve_folder(Path(to))
    _check_folder(folder, force)
    tabulation = resume_hierarchy(found, folder) if workload.ledger is None and bits is None else None
    if tabulation is None:
        tabulation = execute_hierarchy(found, folder, RunOptions(bits, progress, workload.id, fresh))
    tabulation.write()
    certificate = None if signing_key is None else certify(tabulation, signing_key)
    stated = Statement.of(tabulation, found.wanted.bounded, certificate)
    page = format_hierarchy_page(workload.title, stated, found.model, tabulation.root)
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
