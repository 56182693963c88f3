"""What a tabulation of a hierarchy is asked for: its levels, the public list of its nodes, and tables by level.

**Theory of operation.** A hierarchy is a spine (`spine.py`) and the column of the table that says in which node of the last
level a row is. Either that column holds a code, whose first characters name the nodes above, or the list of nodes has one
column per level, and the table has the last of them. All levels follow from the node of the last level, so the engine groups
by that node and the columns of the tables alone: one pass, in the order of the list. Rows whose node is not in the list are
dropped, as those with any other key that is not declared.

The list is public, and never read from the data: nodes without people are in it, and get noise as all others do.

**Sensitivity.** `query/cells.py` proves it for tables that are sums of cells, where a table sends every cell to one of its
own cells. The cells here are (node of the last level, keys). The table of a margin on a level sends a cell to (the ancestor
of its node, some of its keys), which is one cell: the proof holds for it word by word. So each level's table of a margin has
squared l2 sensitivity k² if a unit is added or removed and 2k² if one is replaced, where k is the most that one unit adds to
all cells together; and all levels and margins move at once, so the joint vector has the sum of these.
"""

import csv
import json
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from hashlib import sha256
from io import StringIO
from math import prod
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from discreet._numbers import Number, read_positive
from discreet.errors import BadParameter, DiscreetError, Problems, QueryRefused, SourceRefused
from discreet.formats import missing_library_error
from discreet.ledger.entries import to_canonical_json
from discreet.paths import read_text
from discreet.query.cells import BoundedCells, bound_cells
from discreet.query.parser import read_query
from discreet.query.schema import Column, Key, Kind
from discreet.session.session import Session
from discreet.tabulation.margins import Margin
from discreet.tabulation.regions import Regions
from discreet.tabulation.spine import Spine, check_lengths
from discreet.tabulation.wanted import TABLE_COLUMNS, TOTAL, list_column_problems, write_cells_sql
from discreet.units import Sensitivity

ALL = "all"
REGIONS_LEVEL, REGION = "regions", "region"
"""What the files of regions have in place of a level, and the column of their names."""
FILE_NAME = re.compile(r"\w[\w -]*")
"""What tables and levels may be called: they are names of files."""
NOT_A_FILE_NAME = "not a name of letters, digits, blanks, - and _"
RENAME_LEVEL = "rename the level: it is part of the names of files, and a column in them"

Nodes: TypeAlias = str | Path | Sequence[str] | Mapping[str, Sequence[Any]]
"""A file, codes, or columns by name. A frame is taken too."""


@dataclass(frozen=True)
class Hierarchy:
    """Levels from the top down, their public nodes, and the column that names the node of the last level."""

    column: str
    spine: Spine

    @classmethod
    def read(
        cls, geo: str | Sequence[str], nodes: Nodes, *, column: str | None = None, lengths: Sequence[int] | None = None
    ) -> "Hierarchy":
        """Read a hierarchy from a public list of nodes. Everything that is wrong with it is refused at once.

        `geo` names the levels, top first: "nation > state > county". `nodes` is a CSV or Parquet file, a frame, the codes of
        the last level, or one sequence per level by name. With `lengths`, the levels are the first so many characters of the
        code in `column`. Without, the list has one column per level, and a top level that it lacks is one node.

        >>> found = Hierarchy.read("nation > state > county", ["0101", "0102", "0201"], column="code", lengths=[0, 2, 4])
        >>> found.levels, found.spine.sizes
        (('nation', 'state', 'county'), (1, 2, 3))
        """
        problems = Problems()
        levels = _read_levels(geo, problems)
        if lengths is not None and not is_list(lengths):
            problems.add("lengths", repr(lengths), "not a list", "give the numbers of characters, growing: [0, 2, 5]")
        if lengths is not None and column is None:
            problems.add(
                "column", "missing", "no column holds the code", "name the column whose first characters are levels"
            )
        if lengths is None and column is not None and levels and column != levels[-1]:
            problems.add("column", repr(column), f"the last level is `{levels[-1]}`", "leave column out, or give lengths")
        if lengths is not None and is_list(lengths):
            problems.found += check_lengths(lengths)
        found = None
        with problems.collect_new():
            listed = _read_nodes(nodes, column, levels, lengths is not None)
            if isinstance(listed, Mapping):
                found = cls._of_columns(listed, levels, problems)
            elif is_list(lengths) and column is not None:
                names = levels if len({*levels}) == len(levels) else None  # that one is named twice was said
                found = cls(column, Spine.from_codes(listed, lengths or [], names))
        problems.raise_all("The hierarchy")
        assert found is not None
        return found

    @classmethod
    def _of_columns(
        cls, listed: Mapping[str, Sequence[Any]], levels: Sequence[str], problems: Problems
    ) -> "Hierarchy | None":
        """Return the hierarchy of a list with one column per level. What the list has is looked at, even if it lacks one."""
        names = tuple(dict.fromkeys(levels))
        for name in names:
            rows = [place for place, label in enumerate(listed.get(name, ()), 1) if isinstance(label, str) and not label]
            if rows:
                wrong, reason = f"empty in row {rows[0]}", "a node has no label"
                problems.found.append(BadParameter("nodes", wrong, reason, "write one in every row", column=name))
        with problems.collect():
            return cls(names[-1], Spine.from_columns(_fill_top(listed, names))) if names else None
        there = {name: listed[name] for name in names if name in listed}
        if there:
            with problems.collect_new():
                Spine.from_columns(there)
        return None

    @classmethod
    def read_sound(
        cls, geo: str | Sequence[str], nodes: Nodes, *, column: str | None = None, lengths: Sequence[int] | None = None
    ) -> "tuple[Hierarchy, Mapping[str, Set[Any]]] | None":
        """Read what is left of a hierarchy that is refused, to look at the rest of its plan: without levels that the list of
        nodes lacks, and without rows that contradict others. Return it with all labels that are listed, by level; None if
        nothing is left."""
        levels = tuple(dict.fromkeys(_read_levels(geo, Problems())))
        try:
            listed = _read_nodes(nodes, column, levels, lengths is not None)
            if not isinstance(listed, Mapping):
                assert lengths is not None
                texts = [each for each in dict.fromkeys(listed) if isinstance(each, str) and len(each) == max(lengths)]
                cut = {name: {each[:length] for each in texts} for name, length in zip(levels, lengths, strict=True)}
                return cls(column or levels[-1], Spine.from_codes(texts, lengths, levels)), cut
            there = [levels[0], *(each for each in levels[1:] if each in listed)]
            columns = _fill_top(listed, tuple(there))
            sound = _drop_contradictions(columns)
            return cls(there[-1], Spine.from_columns(sound)), {name: {*each} for name, each in columns.items()}
        except (DiscreetError, LookupError, TypeError, ValueError):
            return None

    @staticmethod
    def check_nodes(nodes: Nodes) -> None:
        """Refuse a file of nodes that cannot be read."""
        if isinstance(nodes, str | Path):
            read_columns(Path(nodes))

    @classmethod
    def of_levels(cls, geo: str | Sequence[str] | None) -> "Hierarchy | None":
        """Return a hierarchy with one invented node per level, to look at the levels of a plan whose nodes are not known;
        None if its levels are not known either."""
        levels = tuple(dict.fromkeys(_read_levels(geo, Problems())))
        return cls(levels[-1], Spine.from_columns({name: [name] for name in levels})) if levels else None

    @property
    def levels(self) -> tuple[str, ...]:
        """The names of the levels, top first."""
        return self.spine.levels

    @cached_property
    def leaves(self) -> tuple[Key, ...]:
        """The keys of the column, in the order of the spine."""
        return tuple(self.spine.nodes[-1].tolist())

    def list_labels(self, level: int) -> list[Any]:
        """The labels of a level's nodes; a top node without one is called as its level."""
        return [each if each != "" else self.levels[level] for each in self.spine.nodes[level].tolist()]

    def find_region(self, nodes: Iterable[Any] | Mapping[str, Iterable[Any]]) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the places on the last level of a region: labels of that level, or labels of any levels by name."""
        by_level = nodes if isinstance(nodes, Mapping) else {self.levels[-1]: nodes}
        found = [np.zeros(0, np.int64)]
        for name, labels in by_level.items():
            level = self.spine.level(name)
            if not is_list(labels):
                raise BadParameter("regions", repr(labels), "not a list of nodes", 'give ["0101", "0102"]')
            for place in self._find_nodes(level, list(labels), is_plain=by_level is not nodes):
                leaves = self.spine.slice_subtree(level, place)[-1]
                found.append(np.arange(leaves.start, leaves.stop))
        return np.unique(np.concatenate(found))

    def _find_nodes(self, level: int, labels: list[Any], *, is_plain: bool) -> list[int]:
        """Return the places of labels; say of which other levels they are, if they are."""
        try:
            return [int(each) for each in self.spine.find(level, labels)]
        except BadParameter as wrong:
            known = [{*each.tolist()} for each in self.spine.nodes]
            others = {
                name: ours
                for i, name in enumerate(self.levels)
                if i != level and (ours := [x for x in labels if x in known[i]])
            }
            found = {self.levels[level]: [each for each in labels if each in known[level]], **others}
            if not others or not all(any(each in some for some in found.values()) for each in labels):
                raise
            written = ", ".join(f"{name} = {json.dumps(some, default=str)}" for name, some in found.items() if some)
            reason = f"of level {', '.join(map(repr, others))}, and not of {self.levels[level]!r}"
            hint = f"name the levels: {{{written}}}" if is_plain else "list each node under its own level"
            raise BadParameter("regions", wrong.value, reason, hint) from None


def is_list(value: Any) -> bool:
    """Whether a value holds others, and is no text."""
    return isinstance(value, Iterable) and not isinstance(value, str | bytes)


def hash_nodes(spine: Spine) -> str:
    """Return the hash of a list of nodes: levels, labels and parents."""
    listed = [spine.levels, *(each.tolist() for each in (*spine.nodes, *spine.parents))]
    return sha256(to_canonical_json(listed)).hexdigest()


def _read_levels(geo: str | Sequence[str] | None, problems: Problems) -> tuple[str, ...]:
    names = (
        [each.strip() for each in geo.split(">")]
        if isinstance(geo, str)
        else [*geo]
        if geo is not None and is_list(geo)
        else []
    )
    if not names or not all(isinstance(each, str) and each for each in names):
        problems.add("geo", repr(geo), "not a list of levels", 'name the levels, top first: "nation > state > county"')
        return ()
    twice = sorted({each for each in names if names.count(each) > 1})
    if twice:
        problems.add("geo", repr(geo), f"levels overlap: `{twice[0]}` is named twice", "name each level once")
    for each in dict.fromkeys(names):
        same = next((other for other in names[: names.index(each)] if other.lower() == each.lower()), None)
        if same is not None:
            problems.add("geo", repr(each), f"on some disks it is the same as {same!r}", RENAME_LEVEL)
        if each.lower() in TABLE_COLUMNS:
            problems.add("geo", repr(each), "every table has a column of this name of its own", RENAME_LEVEL)
        if not FILE_NAME.fullmatch(each):
            problems.add("geo", repr(each), NOT_A_FILE_NAME, RENAME_LEVEL)
    return tuple(names)


def _read_nodes(
    nodes: Nodes, column: str | None, levels: Sequence[str], is_code: bool
) -> "Mapping[str, Sequence[Any]] | Sequence[str]":
    if isinstance(nodes, str | Path):
        nodes = read_columns(Path(nodes))
    elif hasattr(nodes, "columns") and not isinstance(nodes, Mapping):  # a frame of pandas or Polars
        nodes = {str(name): list(nodes[name]) for name in nodes.columns}
    if not is_code:
        if isinstance(nodes, Mapping):
            return nodes
        raise BadParameter("nodes", "a list", "without lengths, nodes have one column per level", "give lengths, or a file")
    if not isinstance(nodes, Mapping):
        return nodes
    for name in (column, *reversed(levels)):
        if name is not None and name in nodes:
            return nodes[name]
    if len(nodes) == 1:
        return next(iter(nodes.values()))
    raise BadParameter(
        "nodes", f"of columns {', '.join(nodes)}", f"none is called `{column}`", "name the column of codes so"
    )


def _fill_top(listed: Mapping[str, Sequence[Any]], levels: tuple[str, ...]) -> dict[str, Sequence[Any]]:
    """The columns of the levels. A top level that is not listed is one node."""
    missing = [name for name in levels if name not in listed]
    if (missing and missing != [levels[0]]) or len(missing) == len(levels):
        name = next(each for each in missing if each != levels[0] or len(levels) == 1)
        raise BadParameter("nodes", f"of columns {', '.join(listed)}", f"no level `{name}`", "list one column per level")
    if not missing:
        return {name: listed[name] for name in levels}
    many = len(listed[levels[1]])
    return {levels[0]: [levels[0]] * many} | {name: listed[name] for name in levels[1:]}


def _drop_contradictions(columns: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """Leave out rows that are not whole, and those that say something else than a row before them."""
    kind = type(next(iter(columns.values()))[0])
    above: list[dict[Any, tuple[Any, ...]]] = [{} for _ in columns]
    kept, leaves = [], set()
    for row in zip(*columns.values(), strict=False):
        is_whole = all(type(each) is kind or isinstance(each, str) for each in row) and "" not in row
        if is_whole and row[-1] not in leaves and all(above[i].get(row[i], row[:i]) == row[:i] for i in range(len(row))):
            kept.append(row)
            leaves.add(row[-1])
            for i in range(len(row)):
                above[i][row[i]] = row[:i]
    return {name: [row[i] for row in kept] for i, name in enumerate(columns)}


def read_columns(path: Path) -> dict[str, Sequence[Any]]:
    """Read a public list, CSV or Parquet. What CSV holds stays text: codes keep their leading zeros."""

    def refuse(reason: str) -> SourceRefused:
        return SourceRefused(f"{path}: {reason}", "name a CSV or Parquet file with the public list in nodes")

    if path.suffix.lower() in (".parquet", ".pq"):
        try:
            from pyarrow import parquet
        except ModuleNotFoundError:
            raise missing_library_error("pyarrow", "discreet[arrow]") from None
        try:
            table = parquet.read_table(path)
        except (OSError, ValueError) as error:
            raise refuse(f"it cannot be read ({type(error).__name__})") from None
        return {name: table[name].to_pylist() for name in table.column_names}
    rows = list(csv.reader(StringIO(read_text(path, refuse), newline="")))
    if not rows or any(len(row) != len(rows[0]) for row in rows):
        raise refuse("not every row has as many fields as the first")
    return {name: [row[i] for row in rows[1:]] for i, name in enumerate(rows[0])}


# -- tables ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LevelTable:
    """A table by some columns on some levels: no columns for the total.

    `weight` is how much the variance of its cells counts when the noise is divided: one number, or one per level by name.
    `error` is the half-width that the interval of each cell may have, on every node: one number, or one for each of the
    table's levels by name. If one table has errors, all have.
    """

    by: tuple[str, ...] = ()
    levels: str | tuple[str, ...] = ALL
    name: str = ""
    weight: "Number | Mapping[str, Number]" = 1
    error: "Number | Mapping[str, Number] | None" = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "by", (self.by,) if isinstance(self.by, str) else tuple(self.by))
        object.__setattr__(self, "name", self.name or "_".join(self.by) or TOTAL)
        if not isinstance(self.levels, str):
            object.__setattr__(self, "levels", tuple(self.levels))


LevelTableLike: TypeAlias = LevelTable | str | Sequence[str]
LevelTablesLike: TypeAlias = Iterable[LevelTableLike] | Mapping[str, LevelTableLike]


@dataclass(frozen=True)
class HierarchyWanted:
    """The tables of a hierarchy, checked, over cells whose contributions are bounded once.

    Margins are numbers of `columns`; the nodes are no column among them, though they are the first of the cells.
    """

    hierarchy: Hierarchy
    tables: tuple[LevelTable, ...]
    margins: tuple[Margin, ...]  # of each table
    levels: tuple[tuple[int, ...], ...]  # of each table, rising
    columns: tuple[str, ...]
    bounded: BoundedCells

    @property
    def keys(self) -> tuple[tuple[Key, ...], ...]:
        """The keys of each column."""
        return self.bounded.keys.columns[1:]

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many keys each column has."""
        return self.bounded.keys.sizes[1:]

    @property
    def by_level(self) -> tuple[tuple[Margin, ...], ...]:
        """The margins of the tables of each level."""
        pairs = [*zip(self.margins, self.levels, strict=True)]
        numbers = range(len(self.hierarchy.levels))
        return tuple(tuple(dict.fromkeys(margin for margin, levels in pairs if number in levels)) for number in numbers)

    @property
    def has_errors(self) -> bool:
        """Whether the noise follows from errors that are wanted, and not from weights."""
        return any(table.error is not None for table in self.tables)

    def list_errors(self) -> dict[tuple[int, Margin], Fraction]:
        """Return the half-width that is wanted of each margin on each level: the least of those that tables want."""
        found: dict[tuple[int, Margin], Fraction] = {}
        for table, margin, levels in zip(self.tables, self.margins, self.levels, strict=True):
            for level in levels:
                named = self.hierarchy.levels[level]
                error = read_positive(table.error[named] if isinstance(table.error, Mapping) else table.error, "error")  # type: ignore[arg-type]
                found[level, margin] = min(error, found.get((level, margin), error))
        return found

    def sensitivity(self, level: int, margin: Margin) -> Sensitivity:
        """How far one unit moves the table of a margin on a level; the proof is at the head of this file."""
        bounded, nodes = self.bounded, self.hierarchy.spine.sizes[level]
        if level == len(self.hierarchy.levels) - 1:
            return bounded.margin_sensitivity((0, *(i + 1 for i in margin)))
        cells = nodes * prod(self.sizes[i] for i in margin)
        most, units = bounded.max_change, bounded.neighbours.differing_units
        if cells == 1:
            return Sensitivity(l0=1, linf=most)
        return Sensitivity(l0=min(bounded.max_groups * units, cells), l1=units * most, l2_squared=units * most**2, linf=most)


def read_hierarchy_wanted(
    session: Session,
    hierarchy: Hierarchy,
    tables: LevelTablesLike,
    *,
    columns: Mapping[str, str] | None = None,
    where: str | None = None,
    weight: str | None = None,
) -> HierarchyWanted:
    """Return what is asked for. Refuse tables that cannot be made, all problems at once, before anything is charged."""
    problems = Problems()
    wanted, levels = check_level_tables(hierarchy, tables, problems)
    names = list(dict.fromkeys(name for table in wanted for name in table.by))
    known = session.table.columns
    for name in names:
        if name not in (columns or {}) and name not in known:
            with problems.collect():
                hint = "take a column of the table, or define it with columns="
                raise QueryRefused(f"There is no column `{name}`", hint)
        elif name == hierarchy.column:
            problems.add("by", repr(name), "the hierarchy is by this column already", "leave it out: name levels instead")
        elif name.lower() in {*TABLE_COLUMNS, *map(str.lower, hierarchy.levels)}:
            hint = f'define it with columns={{"{name}_of_rows": "{name}"}}, and take that'
            problems.add("by", repr(name), "every table has a column of this name of its own", hint)
    check_node_column(hierarchy.column, known, problems)
    geo = {} if hierarchy.column not in known else {hierarchy.column: known[hierarchy.column].with_keys(hierarchy.leaves)}
    table = replace(session.table, columns=dict(known) | geo)
    computed = {name: text for name, text in (columns or {}).items() if isinstance(text, str)}
    if problems.found:
        sound = [name for name in names if name in computed or name in known]
        problems.found += list_column_problems(sound, computed, where, weight, table, session.neighbours)
    problems.raise_all()
    try:
        query = read_query(write_cells_sql([hierarchy.column, *names], columns or {}, where, weight, table), table)
        bounded = bound_cells(query, table, session.neighbours)
    except (QueryRefused, BadParameter) as refused:
        found = list_column_problems(names, computed, where, weight, table, session.neighbours)
        if not found and isinstance(refused, QueryRefused):  # its place is in a text that the user did not write
            found = [QueryRefused(refused.reason, refused.hint)]
        Problems(found or [refused]).raise_all()
        raise
    margins = tuple(tuple(sorted(map(names.index, each.by))) for each in wanted)
    return HierarchyWanted(hierarchy, wanted, margins, tuple(levels), tuple(names), bounded)


def check_level_tables(
    hierarchy: Hierarchy, tables: LevelTablesLike, problems: Problems
) -> tuple[tuple[LevelTable, ...], list[tuple[int, ...]]]:
    """Return the tables, and the numbers of the levels of each. What is wrong with their names, levels, weights and errors
    is collected; their columns are not looked at."""
    wanted = _list_tables(tables, problems)
    return wanted, [_find_levels(table, hierarchy, problems) for table in wanted]


def check_node_column(column: str, known: Mapping[str, Column], problems: Problems) -> None:
    """Collect what is wrong with the column that says in which node a row is."""
    if column not in known:
        problems.add("column", repr(column), "not a column of the table", "name the column of the last level")
    elif known[column].kind is Kind.REAL:
        problems.add("column", repr(column), "holds reals", "make it text or integers")


def _list_tables(tables: LevelTablesLike, problems: Problems) -> tuple[LevelTable, ...]:
    named = isinstance(tables, Mapping)
    pairs = tables.items() if isinstance(tables, Mapping) else (("", table) for table in tables)
    found: list[LevelTable] = []
    for name, table in pairs:
        one = table if isinstance(table, LevelTable) else LevelTable((table,) if isinstance(table, str) else tuple(table))
        found.append(replace(one, name=name) if named else one)
    if not found:
        problems.add("tables", "empty", "no table is wanted", 'give tables={"age": LevelTable(("age",))}')
    for i, one in enumerate(found):
        same = next((other.name for other in found[:i] if other.name.lower() == one.name.lower()), None)
        if same is not None:
            reason = "two tables have this name" if same == one.name else f"on some disks it is the same as {same!r}"
            problems.add("tables", repr(one.name), reason, "name one of them otherwise")
        if not FILE_NAME.fullmatch(one.name):
            problems.add("tables", repr(one.name), NOT_A_FILE_NAME, "rename the table: it is part of the names of files")
        if not all(isinstance(name, str) and name for name in one.by) or len(set(one.by)) < len(one.by):
            problems.add("by", repr(one.by), "not a list of different columns", 'give by=("sex", "age")')
    with_errors = sum(one.error is not None for one in found)
    if 0 < with_errors < len(found):
        problems.add(
            "tables", f"{with_errors} of {len(found)} with an error",
            "noise is divided by errors or by weights, not by both", "give every table an error, or none",
        )  # fmt: skip
    return tuple(found)


def _find_levels(table: LevelTable, hierarchy: Hierarchy, problems: Problems) -> tuple[int, ...]:
    names = hierarchy.levels if table.levels == ALL else (table.levels,) if isinstance(table.levels, str) else table.levels
    found = []
    for name in names:
        if name in hierarchy.levels:
            found.append(hierarchy.spine.level(name))
        else:
            hint = f"take {', '.join(hierarchy.levels)}"
            problems.add("levels", repr(name), f"table `{table.name}` is on no such level", hint)
    if not names:
        problems.add("levels", "empty", f"table `{table.name}` is on no level", f'name levels, or give "{ALL}"')
    for what, value in (("weight", table.weight), ("error", table.error)):
        if value is not None and not isinstance(value, Mapping):
            with problems.collect():
                read_positive(value, what)
        for name, number in value.items() if isinstance(value, Mapping) else ():
            with problems.collect():
                hierarchy.spine.level(name)
                read_positive(number, what)
    missing = [name for name in names if isinstance(table.error, Mapping) and name not in table.error]
    if missing:
        problems.add(
            "error", f"of table `{table.name}` without `{missing[0]}`", "each level of the table needs one",
            "give one number for all its levels, or one for each; or name fewer levels",
        )  # fmt: skip
    return tuple(sorted(set(found)))


def _check_names_of_regions(hierarchy: Hierarchy, columns: Iterable[str], problems: Problems) -> None:
    """Refuse what the files of regions have in common with those of levels, or with their own columns."""
    for level in hierarchy.levels:
        if level.lower() == REGIONS_LEVEL:
            problems.add("geo", repr(level), "the files of regions have this name", f"{RENAME_LEVEL}; or want no regions")
    for name in columns:
        if name.lower() == REGION:
            hint = f'define it with columns={{"{name}_of_rows": "{name}"}}, and take that; or want no regions'
            problems.add("by", repr(name), "the tables of regions have a column of this name of their own", hint)


def read_regions(
    hierarchy: Hierarchy,
    regions: "Mapping[str, Iterable[Any] | Mapping[str, Iterable[Any]]] | None",
    columns: Iterable[str] = (),
) -> tuple[tuple[str, ...], Regions]:
    """Return the names and minimal covers of regions that are no node: each a list of nodes of the last level, or lists of
    nodes by level. `columns` are those of the tables. All problems are refused at once."""
    problems = Problems()
    leaves = []
    if regions:
        _check_names_of_regions(hierarchy, columns, problems)
    for name, nodes in (regions or {}).items():
        with problems.collect():
            try:
                found = hierarchy.find_region(nodes)
            except BadParameter as wrong:
                reason = f"in region {name!r}, {wrong.reason}"
                raise BadParameter("regions", wrong.value, reason, wrong.hint) from None
            if not len(found):
                raise BadParameter("regions", repr(name), "it has no nodes", "list its nodes, or leave it out")
            leaves.append(found)
    problems.raise_all("The regions")
    return tuple(regions or {}), Regions.cover(hierarchy.spine, leaves)
