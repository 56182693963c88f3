"""Adding, removing or replacing one unit moves the exact totals by at most the stated sensitivity, in every norm."""

from dataclasses import replace
from typing import Any

import duckdb
import pytest

from discreet.query import aggregates, ast
from discreet.query.contribution import BoundedQuery, bound_contributions
from discreet.query.schema import Column, Kind, Table
from discreet.query.statistics import CellCounts, CentredSum, DistinctCount, RowCount, Statistic
from discreet.units import Neighbours, Sensitivity
from tests.query.law import as_stated, breaches, broken
from tests.query.oracle import Oracle, Row, reference
from tests.query.worlds import Answering, World, by_duckdb

SEEDS = range(20_000, 20_250)


def by(oracle: type[Oracle]) -> Answering:
    return lambda question, place: reference(question, place.rows, oracle)


def test_the_engine_keeps_the_law() -> None:
    assert broken(by_duckdb(duckdb.connect()), range(70), 2) == []


def test_the_reference_keeps_the_law() -> None:
    assert broken(by(Oracle), SEEDS, 6) == []


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(30_000, 30_800, 50))
def test_the_engine_keeps_the_law_at_length(start: int) -> None:
    assert broken(by_duckdb(duckdb.connect()), range(start, start + 50), 10) == []


class PopularFirst(Oracle):
    """The hash is gone: groups come in the order of how many people have them."""

    def order(self, unit: Any, key: tuple[Any, ...], units: dict[Any, Any]) -> Any:
        return (sum(key in groups for groups in units.values()), repr(key))


class Uncapped(Oracle):
    """No limit on the rows of a unit in a group."""

    def capped(self, total: Any, n: int) -> Any:
        return total


class UncappedCells(Oracle):
    """The cap is on each cell, not on all of a unit's rows in the group."""

    def cells(self, rows: list[Row], unit: Any, key: tuple[Any, ...], counts: CellCounts) -> dict[int, int]:
        each = ([row] for row in rows)
        found = [super(UncappedCells, self).cells(one, unit, key, counts) for one in each]
        return {cell: min(sum(f.get(cell, 0) for f in found), self.bounded.max_rows) for f in found for cell in f}


class ClampedFirst(Oracle):
    """The clamp comes before the rule for what is missing: LEAST(60, NULL) is 60, and NaN is above everything."""

    def clamped(self, row: Row, name: str) -> Any:
        column = self.table.columns[name]
        if self.raw(row, name) is not None or column.upper is None:
            return super().clamped(row, name)
        return super().clamped({**row, name: int(column.upper)}, name)


class FloatSum(Oracle):
    """Doubles are added up as they come."""

    def added(self, rows: list[Row], measure: CentredSum) -> Any:
        if not isinstance(measure.value, ast.Ref) or measure.power != 1 or measure.centre != 0:
            return super().added(rows, measure)
        grid, column = self.bounded.grid_range(measure).grid, self.table.columns[measure.value.column]
        assert column.lower is not None
        assert column.upper is not None
        values = [self.raw(row, measure.value.column) for row in rows]
        return sum(min(max(float(v), float(column.lower)), float(column.upper)) for v in values if v is not None) / float(
            grid
        )


class AllValues(Oracle):
    """Every distinct value of a unit counts, however many it has."""

    def kept_values(self, rows: list[Row], unit: Any, key: tuple[Any, ...], measure: DistinctCount) -> set[Any]:
        unlimited = Oracle(replace(self.bounded, max_rows=10**6))
        return unlimited.kept_values(rows, unit, key, measure)


def test_a_mutant_that_counts_all_values_of_a_unit_breaks_it() -> None:
    [(_, breach), *_] = broken(by(AllValues), SEEDS, 6, first=True)
    assert "of DistinctCount(" in breach


@pytest.mark.parametrize("twin", [PopularFirst, Uncapped, UncappedCells, ClampedFirst])
def test_wrong_twins_break_it(twin: type[Oracle]) -> None:
    assert broken(by(twin), SEEDS, 6, first=True)


def test_a_sensitivity_of_one_group_less_breaks_it() -> None:
    def fewer(question: BoundedQuery, measure: Statistic) -> Sensitivity:
        return as_stated(replace(question, max_groups=max(1, question.max_groups - 1)), measure)

    assert broken(by(Oracle), SEEDS, 6, fewer, first=True)


def test_a_sensitivity_without_the_change_of_sign_breaks_it() -> None:
    def one_sided(question: BoundedQuery, measure: Statistic) -> Sensitivity:
        return as_stated(replace(question, neighbours=Neighbours.ADD_REMOVE), measure)

    assert broken(by(Oracle), SEEDS, 6, one_sided, first=True)


@pytest.mark.parametrize(("oracle", "kept"), [(Oracle, True), (FloatSum, False)])
def test_a_float_sum_breaks_it(oracle: type[Oracle], kept: bool) -> None:
    """0.1 + 1 moves by a little more than 1 when the 1 goes."""
    table = Table("people", "uid", {"uid": Column(Kind.INTEGER), "x": Column(Kind.REAL).with_bounds(-1, 1)})
    question = bound_contributions(ast.Query("people", (("s", aggregates.Sum(ast.Ref("x"))),)), table, Neighbours.ADD_REMOVE)
    place = World(table, ({"uid": 1, "x": 0.1}, {"uid": 2, "x": 1.0}), {"uid": "BIGINT", "x": "DOUBLE"})
    before, after = (by(oracle)(question, w) for w in (place, place.without(2)))
    assert (breaches(question, before, after) == []) is kept


def test_a_replaced_unit_that_stays_in_its_groups_breaks_it() -> None:
    """Counts under replacement move in twice as many groups, though in no more than there are."""

    def staying(question: BoundedQuery, measure: Statistic) -> Sensitivity:
        kept = question if measure != RowCount() else replace(question, neighbours=Neighbours.ADD_REMOVE)
        return as_stated(kept, measure)

    [(_, breach), *_] = broken(by(Oracle), SEEDS, 6, staying, first=True)
    assert breach.endswith("of RowCount()")
