"""Adding, removing or replacing one unit moves the exact totals by at most the stated sensitivity, in every norm."""

from dataclasses import replace
from datetime import date, datetime, timedelta
from operator import eq, ge, gt, le, lt, ne
from typing import Any

import duckdb
import pandas as pd
import pytest

from discreet import connect
from discreet.query import aggregates, ast
from discreet.query.builder import col, count, select
from discreet.query.contribution import BoundedQuery, bound_contributions
from discreet.query.grid import first_day_of
from discreet.query.parser import parse_sql
from discreet.query.schema import Column, Kind, Table
from discreet.query.statistics import CellCounts, CentredSum, DistinctCount, RowCount, Statistic, UnitCount, ValueCount
from discreet.session.session import Session
from discreet.units import Neighbours, Sensitivity
from tests.support.oracle import Oracle, Row, reference
from tests.support.random_tables import Answering, World, by_duckdb
from tests.support.rounds import every_nth_by_day
from tests.support.sensitivity_property import as_stated, breaches, broken

SEEDS = range(20_000, 20_250)
COUNT = "SELECT COUNT(*) AS n FROM people"
PEOPLE = Table(
    "people",
    "id",
    {
        "id": Column(Kind.INTEGER),
        "dept": Column(Kind.TEXT, keys=("a", "b", "c")),
        "ok": Column(Kind.BOOLEAN),
        "pay": Column(Kind.REAL).with_bounds(0, 200),
        "drift": Column(Kind.REAL).with_bounds(-3, 5),
    },
    max_groups=2,
    max_rows=3,
)


def by(oracle: type[Oracle]) -> Answering:
    return lambda query, place: reference(query, place.rows, oracle)


@pytest.mark.parametrize("seeds", every_nth_by_day([range(35), range(35, 70)], 2), ids=str)
def test_the_engine_bounds_contributions(seeds: range) -> None:
    assert broken(by_duckdb(duckdb.connect()), seeds, 2) == []


@pytest.mark.parametrize("start", every_nth_by_day((0, 1), 2))
def test_the_oracle_bounds_contributions(start: int) -> None:
    assert broken(by(Oracle), SEEDS[start::2], 6) == []


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

    def added(self, rows: list[Row], statistic: CentredSum) -> Any:
        if not isinstance(statistic.value, ast.Ref) or statistic.power != 1 or statistic.centre != 0:
            return super().added(rows, statistic)
        grid, column = self.bounded.grid_range(statistic).grid, self.table.columns[statistic.value.column]
        assert column.lower is not None
        assert column.upper is not None
        values = [self.raw(row, statistic.value.column) for row in rows]
        return sum(min(max(float(v), float(column.lower)), float(column.upper)) for v in values if v is not None) / float(
            grid
        )


class AllValues(Oracle):
    """Every distinct value of a unit counts, however many it has."""

    def kept_values(self, rows: list[Row], unit: Any, key: tuple[Any, ...], statistic: DistinctCount) -> set[Any]:
        unlimited = Oracle(replace(self.bounded, max_rows=10**6))
        return unlimited.kept_values(rows, unit, key, statistic)


def test_a_mutant_that_counts_all_values_of_a_unit_exceeds_the_sensitivity() -> None:
    [(_, breach), *_] = broken(by(AllValues), SEEDS[::2], 6, first=True)
    assert "of DistinctCount(" in breach


@pytest.mark.parametrize("mutant", [PopularFirst, Uncapped, UncappedCells, ClampedFirst])
def test_mutants_exceed_the_sensitivity(mutant: type[Oracle]) -> None:
    assert broken(by(mutant), SEEDS[::2], 6, first=True)


def test_a_sensitivity_of_one_group_less_is_exceeded() -> None:
    def fewer(query: BoundedQuery, statistic: Statistic) -> Sensitivity:
        return as_stated(replace(query, max_groups=max(1, query.max_groups - 1)), statistic)

    assert broken(by(Oracle), SEEDS[::2], 6, fewer, first=True)


def test_a_sensitivity_without_the_change_of_sign_is_exceeded() -> None:
    def one_sided(query: BoundedQuery, statistic: Statistic) -> Sensitivity:
        return as_stated(replace(query, neighbours=Neighbours.ADD_REMOVE), statistic)

    assert broken(by(Oracle), SEEDS[::2], 6, one_sided, first=True)


@pytest.mark.parametrize(("oracle", "holds"), [(Oracle, True), (FloatSum, False)])
def test_a_sum_of_doubles_exceeds_the_sensitivity(oracle: type[Oracle], holds: bool) -> None:
    """0.1 + 1 moves by a little more than 1 when the 1 goes."""
    table = Table("people", "uid", {"uid": Column(Kind.INTEGER), "x": Column(Kind.REAL).with_bounds(-1, 1)})
    query = bound_contributions(ast.Query("people", (("s", aggregates.Sum(ast.Ref("x"))),)), table, Neighbours.ADD_REMOVE)
    place = World(table, ({"uid": 1, "x": 0.1}, {"uid": 2, "x": 1.0}), {"uid": "BIGINT", "x": "DOUBLE"})
    before, after = (by(oracle)(query, w) for w in (place, place.without(2)))
    assert (breaches(query, before, after) == []) is holds


def test_a_replaced_unit_that_stays_in_its_groups_is_exceeded() -> None:
    """Counts under replacement move in twice as many groups, though in no more than there are."""

    def staying(query: BoundedQuery, statistic: Statistic) -> Sensitivity:
        claimed = query if statistic != RowCount() else replace(query, neighbours=Neighbours.ADD_REMOVE)
        return as_stated(claimed, statistic)

    [(_, breach), *_] = broken(by(Oracle), SEEDS[::2], 6, staying, first=True)
    assert breach.endswith("of RowCount()")


def sensitivity_of(query: str, neighbours: Neighbours, statistic: Any) -> Any:
    return bound_contributions(parse_sql(query, PEOPLE), PEOPLE, neighbours).sensitivity(statistic)


GROUPED = "SELECT dept, COUNT(*) AS n FROM people GROUP BY dept"


@pytest.mark.parametrize("statistic", [RowCount(), ValueCount(ast.Ref("pay")), UnitCount()])
def test_a_replaced_unit_moves_one_count_once(statistic: Any) -> None:
    most = 1 if statistic == UnitCount() else 3
    one = sensitivity_of(COUNT, Neighbours.REPLACE, statistic)
    assert (one.l0, one.l1, one.linf) == (1, most, most)
    assert one == sensitivity_of(COUNT, Neighbours.ADD_REMOVE, statistic)
    three = sensitivity_of(GROUPED, Neighbours.REPLACE, statistic)  # three departments, of which a unit has up to two
    assert (three.l0, three.l1, three.linf) == (3, 3 * most, most)


def test_a_replaced_unit_moves_a_sum_by_its_range() -> None:
    one_sided, signed = CentredSum(ast.Ref("pay"), 0), CentredSum(ast.Ref("drift"), 0)
    assert sensitivity_of(COUNT, Neighbours.REPLACE, one_sided) == sensitivity_of(COUNT, Neighbours.ADD_REMOVE, one_sided)
    assert (
        sensitivity_of(COUNT, Neighbours.REPLACE, signed).linf
        == 2 * sensitivity_of(COUNT, Neighbours.ADD_REMOVE, signed).linf
    )
    assert sensitivity_of(COUNT, Neighbours.REPLACE, signed).l0 == 1


# -- values outside of the bounds: what is said is compared with what the engine counts ------------------------------------

LOW, HIGH = "2019-01-01", "2020-12-31"
AGES = [5, 5, 5, 5, 25, 35, 45, 95, 95]
CLIPPED_GROUPS = {
    "age // 10": ("age", "[20, 49]", "the first and last group"),
    "ROUND(age, -1)": ("age", "[20, 49]", "the first and last group"),
    "(age + 1) // 10": ("age", "[20, 49]", "the groups that these bounds fall into"),
    "YEAR(day)": ("day", "[2019-01-01, 2020-12-31]", "the first and last group"),
    "MONTH(day)": ("day", "[2019-01-01, 2020-12-31]", "the groups that these bounds fall into"),
    "DATE_TRUNC('quarter', day)": ("day", "[2019-01-01, 2020-12-31]", "the first and last group"),
}


def open_people(**options: object) -> Session:
    days = [date(2018, 1, 1) + timedelta(days=170 * i) for i in range(len(AGES))]
    rows = pd.DataFrame({"id": range(len(AGES)), "age": AGES, "day": days, "sex": ["f", "m", "f"] * 3})
    bounds = {"age": (20, 49), "day": (LOW, HIGH)}
    return connect(rows, name="people", unit="id", unique=True, epsilon=10**4, bounds=bounds, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", CLIPPED_GROUPS)
def test_a_clipped_group_is_named_in_quote_answer_and_chart(value: str) -> None:
    name, bounds, ends = CLIPPED_GROUPS[value]
    said = f"`{name}` is clipped to {bounds}: {ends} also hold what lies outside. Filter with WHERE to leave it out."
    session, query = open_people(), f"SELECT {value} AS part, COUNT(*) AS n FROM people GROUP BY {value}"
    assert said in session.quote(query, epsilon=100).explanation
    answer = session.ask(query, epsilon=100)
    assert said in answer.explanation
    assert said in answer.plot().spec["description"]
    assert said in session.ask(query, epsilon=100).plot().spec["description"]  # recorded, and read again


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("day >= '2019-01-01'", "the last group also holds what lies above"),
        ("day > '2019-06-30' AND sex = 'f'", "the last group also holds what lies above"),
        ("day <= '2020-12-31'", "the first group also holds what lies below"),
        ("day < '2021-01-01'", "the first group also holds what lies below"),
        ("day >= '2018-06-01'", "the first and last group also hold what lies outside"),
        ("day >= '2019-01-01' OR sex = 'f'", "the first and last group also hold what lies outside"),
        ("day BETWEEN '2019-06-01' AND '2020-03-01'", ""),
        ("day = '2019-06-01'", ""),
    ],
)
def test_what_where_leaves_out_is_in_no_group(where: str, said: str) -> None:
    quarter = "DATE_TRUNC('quarter', day)"
    query = f"SELECT {quarter} AS part, COUNT(*) AS n FROM people WHERE {where} GROUP BY {quarter}"
    explanation = open_people(keys={"sex": ["f", "m"]}).quote(query, epsilon=100).explanation
    assert said in explanation
    assert ("clipped" in explanation) == bool(said)


def test_what_is_said_of_bins_is_what_is_counted() -> None:
    session = open_people()
    counts = session.ask("SELECT age // 10 AS part, COUNT(*) AS n FROM people GROUP BY age // 10", epsilon=1000).to_dicts()
    assert [round(row["n"]["value"]) for row in counts] == [5, 1, 3]
    inside = "SELECT age // 10 AS part, COUNT(*) AS n FROM people WHERE age BETWEEN 20 AND 49 GROUP BY age // 10"
    assert [round(row["n"]["value"]) for row in session.ask(inside, epsilon=1000).to_dicts()] == [1, 1, 1]


def test_a_histogram_names_the_range_that_it_counts() -> None:
    session = open_people()
    answer = session.ask("SELECT HISTOGRAM(age, 20, 30, 49) AS h FROM people", epsilon=1000)
    assert "A histogram of `age` counts what lies in [20, 49]; other rows are in no cell." in answer.explanation
    assert "in no cell" in answer.plot().spec["description"]
    assert [round(cell.value) for _, row in answer.rows for cell in row] == [1, 2]


def test_keys_that_are_chosen_are_not_the_first_and_last_group() -> None:
    query = select(n=count()).group_by(part=col("age") // 10, keys={"part": [2, 3]})
    assert "the groups that these bounds fall into also hold" in open_people().quote(query, epsilon=1).explanation


def test_two_groups_of_one_column_are_explained_once() -> None:
    query = "SELECT COUNT(*) AS n FROM people GROUP BY age // 10, age // 20"
    assert open_people().quote(query, epsilon=1).explanation.count("`age` is clipped") == 1


def test_a_column_that_has_bounds_and_is_grouped_by_its_values_is_not_clipped() -> None:
    answer = open_people(keys={"age": (5, 25)}).ask("SELECT age, COUNT(*) AS n FROM people GROUP BY age", epsilon=1000)
    assert answer.outside_note == ""
    assert [round(row["n"]["value"]) for row in answer.to_dicts()] == [4, 1]


def test_a_column_without_bounds_is_not_clipped() -> None:
    rows = pd.DataFrame({"id": range(3), "day": [date(2020, 1, 1 + i) for i in range(3)]})
    session = connect(rows, name="people", unit="id", unique=True, epsilon=10)
    query = "SELECT MONTH(day) AS part, COUNT(*) AS n FROM people GROUP BY MONTH(day)"
    assert "clipped to" not in session.quote(query, epsilon=1).explanation


def test_a_plain_column_is_not_clipped_and_nothing_is_said() -> None:
    answer = open_people(keys={"sex": ("f", "m")}).ask("SELECT sex, COUNT(*) AS n FROM people GROUP BY sex", epsilon=10)
    assert "outside" not in answer.explanation
    assert answer.outside_note == ""


ENDS = date(2024, 1, 10), date(2025, 3, 5)
VALUES = [date(2023, 11, 1) + timedelta(days=i) for i in range(0, 600)]
ORDERS = {
    ast.Order.EQUAL: eq, ast.Order.NOT_EQUAL: ne, ast.Order.LESS: lt, ast.Order.AT_MOST: le, ast.Order.MORE: gt,
    ast.Order.AT_LEAST: ge,
}  # fmt: skip
CONSTANTS = [
    date(2023, 12, 5),
    *ENDS,
    date(2024, 4, 1),
    date(2024, 6, 30),
    date(2024, 9, 16),
    date(2025, 3, 4),
    date(2025, 4, 1),
]


@pytest.mark.parametrize("kind", [Kind.DATE, Kind.TIMESTAMP])
@pytest.mark.parametrize("truncated", [False, True])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("period", ast.Period)
def test_periods_are_left_out_only_where_where_makes_them_empty(
    kind: Kind, truncated: bool, order: ast.Order, period: ast.Period
) -> None:
    """Whatever the rows are, none that passes WHERE is in a period that is left out; the periods depend on no row."""
    table = replace(PEOPLE, columns=PEOPLE.columns | {"day": Column(kind).with_bounds(*map(str, ENDS))})
    lower, upper = table.columns["day"].moment_bounds
    value = ast.DateTrunc(period, ast.Ref("day"))
    query = parse_sql(f"SELECT DATE_TRUNC('{period.value}', day) AS d, {COUNT[7:]} GROUP BY 1", table)
    whole = bound_contributions(query, table, Neighbours.ADD_REMOVE).keys
    at_noon = kind is Kind.TIMESTAMP and not truncated

    def read(day: date) -> date:
        return datetime(day.year, day.month, day.day) if kind is Kind.TIMESTAMP else day

    moments = [
        read(day) + step for day in VALUES for step in (timedelta(0), timedelta(hours=9 if kind is Kind.TIMESTAMP else 0))
    ]
    for constant in CONSTANTS:
        compared = read(constant) if at_noon else constant
        where = ast.Compare(order, value if truncated else value.column, ast.Constant(compared))
        keys = bound_contributions(replace(query, where=where), table, Neighbours.ADD_REMOVE).keys
        passing = [each for each in moments if ORDERS[order](first_day_of(each, period) if truncated else each, compared)]
        reached = {(first_day_of(min(max(each, lower), upper), period),) for each in passing}
        assert keys is not None
        assert whole is not None
        assert reached <= {*keys} <= {*whole}
        if order in (ast.Order.LESS, ast.Order.AT_MOST) or (order is ast.Order.AT_LEAST and not truncated):
            assert {*keys} == (reached or {*whole})


def test_a_period_is_left_out_by_constants_that_all_must_hold() -> None:
    table = replace(PEOPLE, columns=PEOPLE.columns | {"day": Column(Kind.DATE).with_bounds("2024-01-01", "2024-12-31")})

    def months(where: str) -> list[int]:
        sql = f"SELECT DATE_TRUNC('month', day) AS m, {COUNT[7:]} WHERE {where} GROUP BY 1"
        keys = bound_contributions(parse_sql(sql, table), table, Neighbours.ADD_REMOVE).keys
        return [month.month for (month,) in keys or () if isinstance(month, date)]

    assert months("day >= DATE '2024-03-01' AND day < DATE '2024-06-01'") == [3, 4, 5]
    assert months("ok AND day BETWEEN DATE '2024-03-31' AND DATE '2024-06-01'") == [3, 4, 5, 6]
    assert months("day > DATE '2024-05-01' OR ok") == [*range(1, 13)]
    assert months("NOT day > DATE '2024-05-01'") == [*range(1, 13)]
    assert months("day > DATE '2024-09-01' AND day < DATE '2024-03-01'") == [
        *range(1, 13)
    ]  # no row passes: nothing to leave
