"""Random tabulations of random tables, their cells in plain Python, and the law that their tables keep.

The law: every table is the sum of the cells, and one unit moves each table by no more than its stated sensitivity.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import date, datetime, timedelta
from fractions import Fraction
from hashlib import md5
from itertools import chain, combinations
from random import Random
from typing import Any

from discreet.auditor.replay import find_exceeded_norms
from discreet.engines.base import Engine
from discreet.errors import QueryRefused
from discreet.query import aggregates, ast
from discreet.query.cells import BoundedCells, bound_cells
from discreet.query.parser import parse_sql
from discreet.query.schema import Column, Kind, Table
from discreet.units import Neighbours, Sensitivity
from tests.support.oracle import Oracle, Row, text_of
from tests.support.random_tables import Declaring, World, as_it_is, condition, grouping, value, world
from tests.support.sensitivity_property import neighbour

Cells = dict[tuple[int, ...], int]
"""What is not zero, by the codes of its keys."""
Tables = dict[ast.Margin, Cells]
Tabulating = Callable[[BoundedCells, World], Tables]
Stated = Callable[[BoundedCells, ast.Margin], Sensitivity]


def list_margins(columns: int) -> list[ast.Margin]:
    """Return all sets of columns."""
    return [*chain.from_iterable(combinations(range(columns), n) for n in range(columns + 1))]


def random_cells(rng: Random, place: World, neighbours: Neighbours = Neighbours.ADD_REMOVE) -> BoundedCells:
    """Return a tabulation of this table that is not refused. Most are of several columns."""
    while True:
        groups = {each.value: each for each in (grouping(rng, i) for i in range(rng.choice([0, 1, 2, 2, 3, 3])))}
        counted = rng.choice([aggregates.CountRows(), aggregates.CountUnits(), aggregates.Sum(ast.Abs(value(rng)))])
        where = condition(rng) if rng.random() < 0.3 else None
        query = ast.Query("people", (("n", counted),), where, tuple(groups.values()))
        try:
            return bound_cells(query, place.table, neighbours)
        except QueryRefused:
            continue


class CellOracle(Oracle):
    """The cells of a tabulation, row by row."""

    bounded: BoundedCells

    def code(self, key: tuple[Any, ...]) -> tuple[int, ...] | None:
        """The places of keys among those that are declared; None if one is not."""
        lists = self.bounded.keys.columns
        declared = all(part in listed for part, listed in zip(key, lists, strict=True))
        return tuple(listed.index(part) for part, listed in zip(key, lists, strict=True)) if declared else None

    def pairs(self, rows: Iterable[Row]) -> dict[Any, dict[tuple[Any, ...], list[Row]]]:
        units: dict[Any, dict[tuple[Any, ...], list[Row]]] = {}
        where = self.bounded.query.where
        for place, row in enumerate(rows):
            unit, code = self.unit(row, place), self.code(self.key(row))
            if unit is not None and code is not None and (where is None or self.holds(row, where) is True):
                units.setdefault(unit, {}).setdefault(code, []).append(row)
        return units

    def order(self, unit: Any, key: tuple[Any, ...], units: dict[Any, Any]) -> Any:
        parts = [self.table.salt, text_of(unit), *map(str, key)]
        return md5("".join(f"{len(part)}:{part}" for part in parts).encode()).hexdigest(), key

    def kept(self, rows: Iterable[Row]) -> list[tuple[tuple[int, ...], int]]:
        """What each unit adds to each of the cells that it keeps."""
        units = self.pairs(rows)
        return [
            (code, self.share(found[code], self.bounded.statistic))
            for unit, found in units.items()
            for code in sorted(found, key=lambda each: self.order(unit, each, units))[: self.bounded.max_groups]
        ]


def add_up(parts: Iterable[tuple[tuple[int, ...], int]]) -> Cells:
    sums: Cells = {}
    for codes, number in parts:
        sums[codes] = sums.get(codes, 0) + number
    return {codes: number for codes, number in sums.items() if number}


def count_in_python(bounded: BoundedCells, rows: Iterable[Row]) -> Cells:
    """Return the cells of a tabulation."""
    return add_up(CellOracle(bounded).kept(rows))


def roll_up(bounded: BoundedCells, cells: Cells) -> Tables:
    """Return the tables of all margins."""
    return {
        margin: add_up((tuple(codes[i] for i in margin), number) for codes, number in cells.items())
        for margin in list_margins(len(bounded.query.groups))
    }


def count_with(engine: Engine, bounded: BoundedCells, ordered_columns: int = 0) -> Cells:
    """Return what an engine reads, each cell once and in the order that was asked for."""
    blocks = [*engine.read_cells(bounded, ordered_columns=ordered_columns)]
    assert all(str(each.dtype) == "int64" for block in blocks for each in (block.codes, block.counts))
    assert all(block.codes.shape == (len(block), len(bounded.query.groups)) for block in blocks)
    rows = [
        (tuple(codes), n) for block in blocks for codes, n in zip(block.codes.tolist(), block.counts.tolist(), strict=True)
    ]
    assert len({codes for codes, _ in rows}) == len(rows)
    leading = [codes[:ordered_columns] for codes, _ in rows]
    assert leading == sorted(leading)
    return add_up(rows)


def find_cell_differences(
    open_world: Callable[[World], Engine], seeds: range, each: int, declare: Declaring = as_it_is
) -> list[tuple[int, str]]:
    """Return the tabulations on which the engine and plain Python disagree."""
    found = []
    for seed in seeds:
        rng = Random(seed)
        place = declare(rng, world(rng))
        engine = open_world(place)
        for _ in range(each):
            bounded = random_cells(rng, place)
            if count_with(engine, bounded, rng.randint(0, len(bounded.query.groups))) != count_in_python(
                bounded, place.rows
            ):
                found.append((seed, ast.to_sql(bounded.query)))
    return found


# -- keys of every kind ----------------------------------------------------------------------------------------------------

DAY, MOMENT = date(2024, 2, 27), datetime(2024, 2, 29, 23, 59, 59, 500000)
KEYS: dict[str, tuple[Kind, str, list[Any]]] = {
    "text": (
        Kind.TEXT,
        "VARCHAR",
        ["", ",", ";", "/", "a'b", "\\", "%", "\n", "ÅÄö", "😀", "a|b", "NULL", "\ue000", "A", "a"],
    ),
    "integer": (Kind.INTEGER, "BIGINT", [7, -(2**63), 2**63 - 1, 0, -1, 10, 12, 14, 16, 18]),
    "small": (Kind.INTEGER, "INTEGER", [*range(-2, 12)]),
    "date": (Kind.DATE, "DATE", [DAY + timedelta(days=3 * i) for i in range(10)]),
    "timestamp": (Kind.TIMESTAMP, "TIMESTAMP", [MOMENT + timedelta(hours=i) for i in range(10)]),
    "boolean": (Kind.BOOLEAN, "BOOLEAN", [True, False]),
}


def keyed_worlds() -> Iterator[tuple[str, World, BoundedCells]]:
    """Yield tables with one column of keys of each kind, few and many, with NULL at any place."""
    for name, (kind, kind_of_column, values) in KEYS.items():
        for listed in (
            values,
            values[1:],
            values[:1],
            [*values[:2], None, *values[2:]],
            [None, *values],
            [*values, None],
            [None],
        ):
            column = Column(kind, keys=tuple(listed))
            table = Table("people", "uid", {"uid": Column(Kind.INTEGER), "k": column}, unique=True)
            rows = [{"uid": i, "k": value} for i, value in enumerate([*values, *values[::2], None])]
            types = {"uid": "BIGINT", "k": kind_of_column}
            query = parse_sql("SELECT k, COUNT(*) AS n FROM people GROUP BY k", table)
            yield name, World(table, tuple(rows), types), bound_cells(query, table, Neighbours.ADD_REMOVE)


# -- the law ---------------------------------------------------------------------------------------------------------------


def by_oracle(bounded: BoundedCells, place: World) -> Tables:
    return roll_up(bounded, count_in_python(bounded, place.rows))


def by_engine(open_world: Callable[[World], Engine]) -> Tabulating:
    return lambda bounded, place: roll_up(bounded, count_with(open_world(place), bounded))


def as_stated(bounded: BoundedCells, margin: ast.Margin) -> Sensitivity:
    return bounded.margin_sensitivity(margin)


def contrast(bounded: BoundedCells, cells: Cells, columns: ast.Margin, by: ast.Margin) -> Cells:
    """Return a contrast over columns of two keys: rows with the first key of each minus those with the second."""
    signed = ((tuple(codes[i] for i in by), n * (-1) ** sum(codes[i] for i in columns)) for codes, n in cells.items())
    return add_up(signed)


def list_contrasts(bounded: BoundedCells) -> list[tuple[ast.Margin, ast.Margin]]:
    """Return all contrasts of a tabulation: columns of two keys, and columns that they are by."""
    sizes = bounded.keys.sizes
    margins = list_margins(len(sizes))
    binary = [columns for columns in margins if columns and all(sizes[i] == 2 for i in columns)]
    return [(columns, by) for columns in binary for by in margins if not set(columns) & set(by)]


def find_contrast_breaches(bounded: BoundedCells, before: Tables, after: Tables, stated: Stated) -> list[str]:
    """Return which contrasts move further than stated: each by itself, and all together with all tables."""
    finest, found, squares = tuple(range(len(bounded.query.groups))), [], Fraction(0)
    joint: list[dict[Any, int]] = [{}, {}]
    for columns, by in list_contrasts(bounded):
        one, other = (contrast(bounded, tables[finest], columns, by) for tables in (before, after))
        found += find_exceeded_norms(f"contrast {columns} by {by}", one, other, stated(bounded, by))
        squares += stated(bounded, by).l2_squared
        for cells, all_cells in zip((one, other), joint, strict=True):
            all_cells.update({(columns, by, codes): n for codes, n in cells.items()})
    if squares:
        found += find_exceeded_norms("all contrasts", *joint, Sensitivity(l2_squared=squares))
    return found


def find_breaches(bounded: BoundedCells, before: Tables, after: Tables, stated: Stated = as_stated) -> list[str]:
    """Return where tables are not sums of the cells, or move further than stated: each by itself, and all together."""
    finest = tuple(range(len(bounded.query.groups)))
    found = [
        f"the sum of {margin}"
        for tables in (before, after)
        for margin, cells in tables.items()
        if roll_up(bounded, tables[finest])[margin] != cells
    ]
    for margin, cells in before.items():
        found += find_exceeded_norms(f"table {margin}", cells, after[margin], stated(bounded, margin))
    joint = [
        {(margin, codes): n for margin, cells in tables.items() for codes, n in cells.items()} for tables in (before, after)
    ]
    squares = sum((stated(bounded, margin).l2_squared for margin in before), Fraction(0))
    return found + find_exceeded_norms("all tables", *joint, Sensitivity(l2_squared=squares))


def contrast_as_stated(bounded: BoundedCells, by: ast.Margin) -> Sensitivity:
    return bounded.contrast_sensitivity(by)


def find_broken_tabulations(
    tabulate: Tabulating, seeds: range, each: int, stated: Stated = as_stated, *, first: bool = False,
    declare: Declaring = as_it_is, stated_of_contrasts: Stated = contrast_as_stated,
) -> list[tuple[int, str]]:  # fmt: skip
    """Return every breach that these seeds show (or the first)."""
    found: list[tuple[int, str]] = []
    for seed in seeds:
        rng = Random(seed)
        place = declare(rng, world(rng))
        relation = rng.choice(list(Neighbours))
        other = neighbour(rng, place, relation)
        if other is None:
            continue
        for _ in range(each):
            bounded = random_cells(rng, place, relation)
            tables = tabulate(bounded, place), tabulate(bounded, other)
            breaches = find_breaches(bounded, *tables, stated)
            breaches += find_contrast_breaches(bounded, *tables, stated_of_contrasts)
            found += [(seed, breach) for breach in breaches]
            if first and found:
                return found
    return found


# -- mutants ---------------------------------------------------------------------------------------------------------------


class _ByMargin(CellOracle):
    """Codes of the columns of one margin only."""

    def __init__(self, bounded: BoundedCells, margin: ast.Margin) -> None:
        super().__init__(bounded)
        self.margin = margin

    def code(self, key: tuple[Any, ...]) -> tuple[int, ...] | None:
        codes = super().code(key)
        return None if codes is None else tuple(codes[i] for i in self.margin)


def bound_each_table(bounded: BoundedCells, place: World) -> Tables:
    """A mutant that bounds units in each table by itself."""
    margins = list_margins(len(bounded.query.groups))
    return {margin: add_up(_ByMargin(bounded, margin).kept(place.rows)) for margin in margins}


def merge_null_with_sums(bounded: BoundedCells, place: World) -> Tables:
    """A mutant that reads GROUPING SETS without GROUPING(): a row with NULL in it is of every table without that column, and
    a key that is NULL is taken for a column that was summed over."""
    tables = by_oracle(bounded, place)
    nulls = [listed.index(None) if None in listed else -1 for listed in bounded.keys.columns]
    rows = []
    for margin, cells in tables.items():
        for codes, number in cells.items():
            by_column = dict(zip(margin, codes, strict=True))
            rows.append((tuple(by_column.get(i, null) for i, null in enumerate(nulls)), number))
    return {
        margin: add_up(
            (tuple(codes[i] for i in margin), number)
            for codes, number in rows
            if all(codes[i] == null for i, null in enumerate(nulls) if i not in margin)
            and all(codes[i] >= 0 for i in margin)
        )
        for margin in tables
    }


def price_as_added(bounded: BoundedCells, margin: ast.Margin) -> Sensitivity:
    """A mutant that prices a replaced unit as one that is added or removed."""
    return replace(bounded, neighbours=Neighbours.ADD_REMOVE).margin_sensitivity(margin)


def price_contrasts_as_added(bounded: BoundedCells, by: ast.Margin) -> Sensitivity:
    """A mutant that takes the discount of add/remove for replaced units too."""
    return replace(bounded, neighbours=Neighbours.ADD_REMOVE).contrast_sensitivity(by)


def price_contrasts_as_tables(bounded: BoundedCells, by: ast.Margin) -> Sensitivity:
    """A mutant that forgets that rows of either sign meet in one entry: 2k² in place of 4k²."""
    most, units = bounded.max_change, bounded.neighbours.differing_units
    return Sensitivity(l1=units * most, l2_squared=units * most**2, linf=most)


def price_contrasts_by_cell(bounded: BoundedCells, by: ast.Margin) -> Sensitivity:
    """A mutant that forgets that the cells of a unit merge in contrasts."""
    most, units = bounded.max_contribution(bounded.statistic), bounded.neighbours.differing_units
    return Sensitivity(l0=bounded.max_groups * units, linf=units * most)


def price_as_finest(bounded: BoundedCells, margin: ast.Margin) -> Sensitivity:
    """A mutant that forgets that the cells of a unit merge in sums."""
    return bounded.sensitivity(bounded.statistic)


def price_total_as_free(bounded: BoundedCells, margin: ast.Margin) -> Sensitivity:
    """A mutant that takes the total of replaced units for public."""
    free = not margin and bounded.neighbours is Neighbours.REPLACE
    return Sensitivity(l0=1, linf=Fraction(1, 2)) if free else as_stated(bounded, margin)
