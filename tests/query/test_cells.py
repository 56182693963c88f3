"""The cells of a tabulation: its tables are sums of the same kept rows, and one unit moves them no further than stated."""

from dataclasses import replace
from fractions import Fraction
from math import prod
from typing import Any

import pytest

from discreet import connect
from discreet.errors import QueryRefused
from discreet.query import ast
from discreet.query.builder import count, select
from discreet.query.cells import MAX_WEIGHT, BoundedCells, KeyProduct, bound_cells, explain_cells
from discreet.query.contribution import bound_contributions
from discreet.query.parser import parse_sql, read_query
from discreet.query.record import hash_keys
from discreet.query.schema import Column, Kind, Table
from discreet.query.statistics import CentredSum
from discreet.units import Neighbours
from tests.support.random_cells import (
    Stated,
    Tabulating,
    bound_each_table,
    by_oracle,
    contrast,
    count_in_python,
    find_breaches,
    find_broken_tabulations,
    merge_null_with_sums,
    price_as_added,
    price_as_finest,
    price_contrasts_as_added,
    price_contrasts_as_tables,
    price_contrasts_by_cell,
    price_total_as_free,
    roll_up,
)
from tests.support.random_tables import World, with_row_units, with_several_columns
from tests.support.rebuilt_queries import rebuilt
from tests.support.rounds import every_nth_by_day

SEEDS = range(60_000, 60_200)
PEOPLE = Table(
    "people",
    "id",
    {
        "id": Column(Kind.INTEGER),
        "dept": Column(Kind.TEXT, keys=("a", "b", None)),
        "city": Column(Kind.TEXT),
        "age": Column(Kind.INTEGER).with_bounds(0, 99),
        "ok": Column(Kind.BOOLEAN),
        "w": Column(Kind.REAL).with_bounds(0, 4),
        "debt": Column(Kind.REAL).with_bounds(-1, 4),
        "large": Column(Kind.INTEGER).with_bounds(0, MAX_WEIGHT + 1),
    },
    max_groups=2,
    max_rows=3,
)
TYPES = {"id": "BIGINT", "dept": "VARCHAR", "city": "VARCHAR", "age": "BIGINT", "ok": "BOOLEAN", "w": "DOUBLE"}


def bound(sql: str, table: Table = PEOPLE, neighbours: Neighbours = Neighbours.ADD_REMOVE) -> BoundedCells:
    return bound_cells(parse_sql(sql, table), table, neighbours)


# -- the law ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", every_nth_by_day((0, 1), 2))
@pytest.mark.parametrize("declare", [None, with_row_units, with_several_columns])
def test_one_unit_moves_all_tables_by_no_more_than_stated(declare: Any, start: int) -> None:
    options = {} if declare is None else {"declare": declare}
    assert find_broken_tabulations(by_oracle, SEEDS[start::2], 5, **options) == []


@pytest.mark.parametrize("mutant", [bound_each_table, merge_null_with_sums])
def test_mutants_of_tables_break_the_law(mutant: Tabulating) -> None:
    assert find_broken_tabulations(mutant, SEEDS[::2], 5, first=True)


@pytest.mark.parametrize("mutant", [price_as_added, price_as_finest, price_total_as_free])
def test_mutants_of_the_sensitivity_break_the_law(mutant: Stated) -> None:
    assert find_broken_tabulations(by_oracle, SEEDS[::2], 5, mutant, first=True)


@pytest.mark.parametrize("mutant", [price_contrasts_as_added, price_contrasts_as_tables, price_contrasts_by_cell])
def test_mutants_of_the_sensitivity_of_contrasts_break_the_law(mutant: Stated) -> None:
    found = find_broken_tabulations(by_oracle, range(50_000, 50_200), 5, first=True, stated_of_contrasts=mutant)
    assert all("contrast" in breach for _, breach in found)
    assert found


@pytest.mark.parametrize("weight", ["COUNT(*)", "SUM(w)"])
def test_the_sensitivity_of_contrasts_is_reached(weight: str) -> None:
    """All rows of a unit in one cell; replaced by rows that have the other key, the contrast moves twice as far."""
    for neighbours, factor in ((Neighbours.ADD_REMOVE, 1), (Neighbours.REPLACE, 2)):
        bounded = bound(ALL_COLUMNS.replace("COUNT(*)", weight), replace(PEOPLE, max_groups=1), neighbours)
        most = factor * bounded.max_change
        after = [] if factor == 1 else [row(1, "a", True)] * 9
        cells = [count_in_python(bounded, rows) for rows in ([row(1, "a", False)] * 9, after)]
        for by, entry in (((), ()), ((0,), (0,))):
            one, other = (contrast(bounded, each, (1,), by).get(entry, 0) for each in cells)
            stated = bounded.contrast_sensitivity(by)
            assert abs(one - other) == most == stated.linf == stated.l1
            assert stated.l2_squared == most**2


ALL_COLUMNS = "SELECT dept, ok, COUNT(*) AS n FROM people GROUP BY CUBE(dept, ok)"


def row(unit: int, dept: str | None, ok: bool, w: float = 4.0) -> dict[str, Any]:
    return {"id": unit, "dept": dept, "city": None, "age": 1, "ok": ok, "w": w}


def change(bounded: BoundedCells, before: list[Any], after: list[Any]) -> dict[ast.Margin, int]:
    """Return the squared change of each table."""
    tables = [by_oracle(bounded, World(bounded.table, tuple(rows), TYPES)) for rows in (before, after)]
    assert find_breaches(bounded, *tables) == []
    first, second = tables
    return {m: sum((first[m].get(c, 0) - second[m].get(c, 0)) ** 2 for c in {**first[m], **second[m]}) for m in first}


@pytest.mark.parametrize("weight", ["COUNT(*)", "SUM(w)"])
def test_the_sensitivity_is_reached_in_all_tables_at_once(weight: str) -> None:
    """Two cells that differ in one column: six rows in one cell of the table of the other column."""
    mine, others = [row(1, "a", ok) for ok in (False, True)] * 9, [row(2, "b", True)] * 9
    for neighbours in Neighbours:
        bounded = bound(ALL_COLUMNS.replace("COUNT(*)", weight), neighbours=neighbours)
        step = bounded.max_contribution(bounded.statistic) // 3
        assert bounded.max_change == 6 * step
        if neighbours is Neighbours.ADD_REMOVE:
            assert change(bounded, mine, []) == {
                (): 36 * step**2,
                (0,): 36 * step**2,
                (1,): 18 * step**2,
                (0, 1): 18 * step**2,
            }
        else:
            moved = change(bounded, mine, [row(1, None, ok) for ok in (False, True)] * 9)
            assert moved[0,] == 72 * step**2 == bounded.margin_sensitivity((0,)).l2_squared
            assert moved[0, 1] == 36 * step**2 == bounded.margin_sensitivity((0, 1)).l2_squared
            assert change(bounded, [*mine, *others], others)[()] == 36 * step**2 == bounded.margin_sensitivity(()).l2_squared


def test_what_is_stated_of_each_table() -> None:
    for neighbours, units in ((Neighbours.ADD_REMOVE, 1), (Neighbours.REPLACE, 2)):
        bounded = bound(ALL_COLUMNS, neighbours=neighbours)
        finest, dept, total = (bounded.margin_sensitivity(margin) for margin in ((0, 1), (0,), ()))
        assert (finest.l0, finest.l1, finest.l2_squared, finest.linf) == (2 * units, 6 * units, 18 * units, 3)
        assert (dept.l0, dept.l1, dept.l2_squared, dept.linf) == (min(3, 2 * units), 6 * units, 36 * units, 6)
        assert (total.l0, total.l1, total.l2_squared, total.linf) == (1, 6, 36, 6)


def test_a_unit_with_one_row_moves_every_table_by_one() -> None:
    bounded = bound(ALL_COLUMNS, replace(PEOPLE, unique=True))
    assert bounded.max_change == 1
    assert {bounded.margin_sensitivity(margin).l2_squared for margin in bounded.margins} == {1}


def test_rows_with_undeclared_keys_take_no_place_of_others() -> None:
    rows = [row(1, "z", ok) for ok in (False, True)] * 9 + [row(1, None, True), row(1, "b", False)]
    assert count_in_python(bound(ALL_COLUMNS), rows) == {(2, 1): 1, (1, 0): 1}


def test_null_is_no_key_unless_it_is_declared() -> None:
    table = replace(PEOPLE, columns=PEOPLE.columns | {"dept": Column(Kind.TEXT, keys=("a", "b"))})
    bounded = bound(ALL_COLUMNS, table)
    assert roll_up(bounded, count_in_python(bounded, [row(1, None, True), row(2, "a", True)]))[()] == {(): 1}


# -- keys ------------------------------------------------------------------------------------------------------------------


def test_a_product_of_keys_is_never_listed() -> None:
    columns = {f"c{i}": Column(Kind.INTEGER, keys=tuple(range(1000))) for i in range(6)}
    table = Table("people", "id", {"id": Column(Kind.INTEGER), **columns}, max_groups=7)
    bounded = bound(f"SELECT COUNT(*) AS n FROM people GROUP BY {', '.join([*columns][:5])}", table)
    assert len(bounded.keys) == 10**15 == prod(bounded.keys.sizes)
    assert bounded.keys[123_456_789_012_345] == (123, 456, 789, 12, 345)
    assert bounded.keys.index((123, 456, 789, 12, 345)) == 123_456_789_012_345
    assert bounded.keys[-1] == (999,) * 5
    assert (1, 2, 3, 4, 1000) not in bounded.keys
    assert bounded.max_groups == 7
    with pytest.raises(QueryRefused, match=r"more than 1,000,000,000,000,000 combinations.*fewer columns"):
        bound(f"SELECT COUNT(*) AS n FROM people GROUP BY {', '.join(columns)}", table)


def test_a_product_of_keys_is_what_itertools_makes_of_it() -> None:
    keys = KeyProduct((("a", None), (1, 2, 3), (True,)))
    listed = [*keys]
    assert [keys[i] for i in range(len(keys))] == listed == keys[:]
    assert [keys.index(each) for each in listed] == [*range(6)]
    assert all(each in keys for each in listed)
    assert ("a", 1) not in keys
    assert keys[4:1:-2] == listed[4:1:-2]
    with pytest.raises(IndexError):
        keys[6]
    assert (len(KeyProduct(())), KeyProduct(())[0]) == (1, ())


def test_measurements_of_different_keys_have_different_specifications() -> None:
    first, second = KeyProduct((("a", "b"), (1,))), KeyProduct((("b", "a"), (1,)))
    assert hash_keys(first) != hash_keys(second)
    assert hash_keys(first) == hash_keys(KeyProduct(first.columns))
    assert hash_keys(None) is None


# -- refusals --------------------------------------------------------------------------------------------------------------

REFUSED = {
    "SELECT city, COUNT(*) AS n FROM people GROUP BY CUBE(city)": r"keys of `city` are not declared.*keys=\{'city': \[",
    "SELECT age, COUNT(*) AS n FROM people GROUP BY ROLLUP(age)": r"keys of `age` are not declared.*keys=\{'age': \[",
    "SELECT dept, AVG(w) AS m FROM people GROUP BY CUBE(dept)": r"Tables of AVG\(w\) do not add up.*SUM\(weight\)",
    "SELECT dept, COUNT(w) AS m FROM people GROUP BY CUBE(dept)": r"Tables of COUNT\(w\) do not add up",
    "SELECT dept, COUNT(DISTINCT age) AS m FROM people GROUP BY CUBE(dept)": r"Tables of COUNT\(DISTINCT age\) do not",
    "SELECT dept, COUNT(DISTINCT id) AS m FROM people GROUP BY CUBE(dept)": r"distinct id do not add up.*max_groups = 1",
    "SELECT dept, COUNT(*) AS n, SUM(w) AS s FROM people GROUP BY CUBE(dept)": r"one thing, and this query has 2 aggregates",
    "SELECT dept, SUM(debt) AS s FROM people GROUP BY CUBE(dept)": r"weight debt may be negative.*begin at 0",
    "SELECT dept, SUM(large) AS s FROM people GROUP BY CUBE(dept)": r"weight large may be 2,097,153 steps.*larger unit",
    "SELECT dept, COUNT(*) AS n FROM people GROUP BY CUBE(dept) HAVING n > 3": r"HAVING.*filter the tables",
    "SELECT dept, COUNT(*) AS n FROM people GROUP BY CUBE(dept) ORDER BY n LIMIT 1": r"ORDER BY.*filter the tables",
}


@pytest.mark.parametrize("sql", REFUSED)
def test_what_does_not_add_up_is_refused(sql: str) -> None:
    with pytest.raises(QueryRefused, match=REFUSED[sql]):
        bound(sql)


def test_distinct_units_are_counted_where_each_is_in_one_cell() -> None:
    sql = "SELECT dept, COUNT(DISTINCT id) AS m FROM people GROUP BY CUBE(dept)"
    bounded = bound(sql, replace(PEOPLE, max_groups=1))
    assert bounded.max_change == 1
    assert count_in_python(bounded, [row(1, "a", True)] * 5) == {(0,): 1}


def test_the_largest_weight_adds_up_in_64_bits() -> None:
    table = replace(PEOPLE, columns=PEOPLE.columns | {"large": Column(Kind.INTEGER).with_bounds(0, MAX_WEIGHT)})
    bounded = bound("SELECT dept, SUM(large) AS s FROM people GROUP BY dept", table)
    assert isinstance(bounded.statistic, CentredSum)
    assert MAX_WEIGHT * 2**41 < 2**63
    reals = replace(PEOPLE, columns=PEOPLE.columns | {"large": Column(Kind.REAL).with_bounds(0, Fraction(10**9, 3))})
    assert bound("SELECT dept, SUM(large) AS s FROM people GROUP BY dept", reals).max_change < 6 * MAX_WEIGHT


# -- GROUPING SETS ---------------------------------------------------------------------------------------------------------

BY = "SELECT dept, ok, COUNT(*) AS n FROM people GROUP BY "
MARGINS: dict[str, tuple[ast.Margin, ...]] = {
    "dept, ok": (),
    "GROUPING SETS ((dept, ok))": (),
    "GROUPING SETS ((ok, dept), (dept, ok))": (),
    "CUBE(dept, ok)": ((0, 1), (0,), (1,), ()),
    "CUBE(1, 2)": ((0, 1), (0,), (1,), ()),
    "CUBE((dept, ok))": ((0, 1), ()),
    "ROLLUP(dept, ok)": ((0, 1), (0,), ()),
    "ROLLUP(ok, dept)": ((0, 1), (1,), ()),
    "dept, ROLLUP(ok)": ((0, 1), (0,)),
    "CUBE(dept), CUBE(ok)": ((0, 1), (0,), (1,), ()),
    "GROUPING SETS (dept, (ok), ())": ((0,), (1,), ()),
    "GROUPING SETS (ROLLUP(dept), ok)": ((0,), (1,), ()),
    "GROUPING SETS (GROUPING SETS (dept, ok), CUBE(dept))": ((0,), (1,), ()),
    "GROUPING SETS (dept, ()), GROUPING SETS (ok)": ((0, 1), (1,)),
}


@pytest.mark.parametrize("groups", MARGINS)
def test_grouping_sets_are_read_and_written(groups: str) -> None:
    query = parse_sql(BY + groups, PEOPLE)
    assert query.margins == MARGINS[groups]
    assert parse_sql(ast.to_sql(query), PEOPLE) == query
    assert bound_cells(query, PEOPLE, Neighbours.ADD_REMOVE).margins == (query.margins or ((0, 1),))
    assert read_query(query, PEOPLE) is query
    assert read_query(rebuilt(query), PEOPLE) == query


def test_margins_follow_the_order_of_select() -> None:
    query = parse_sql("SELECT ok, COUNT(*) AS n FROM people GROUP BY ROLLUP(dept, ok, age // 10)", PEOPLE)
    assert [group.value for group in query.groups] == [ast.Ref("ok"), ast.Ref("dept"), ast.Bin(ast.Ref("age"), 10)]
    assert query.margins == ((0, 1, 2), (0, 1), (1,), ())


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        ("dept WITH ROLLUP", r"WITH ROLLUP.*Write GROUP BY ROLLUP\(a, b\)"),
        ("dept WITH CUBE", r"WITH CUBE.*Write GROUP BY CUBE\(a, b\)"),
        ("CUBE(dept) WITH TOTALS", "TOTALS is not supported"),
        ("CUBE()", "CUBE names no column"),
        ("CUBE(nothing)", "`nothing` is not declared"),
        ("CUBE(dept, SUM(age))", "aggregate `SUM`"),
        (f"CUBE({', '.join(f'age // {i}' for i in range(2, 17))})", "more than 10,000 tables.*Name fewer"),
        (
            f"GROUPING SETS ({', '.join(['CUBE(' + ', '.join(f'age // {i}' for i in range(2, 15)) + ')'] * 2)})",
            "10,000 tables",
        ),
    ],
)
def test_other_grouping_sets_are_refused(groups: str, said: str) -> None:
    with pytest.raises(QueryRefused, match=said):
        parse_sql(f"SELECT COUNT(*) AS n FROM people GROUP BY {groups}", PEOPLE)


def test_grouping_is_refused_because_tables_come_apart() -> None:
    with pytest.raises(QueryRefused, match=r"`GROUPING` is not supported\. Leave it out: each table"):
        parse_sql("SELECT dept, GROUPING(dept) AS g, COUNT(*) AS n FROM people GROUP BY CUBE(dept)", PEOPLE)


@pytest.mark.parametrize(
    "margins", [((0,),), ((0, 1), (2,)), ((0,), (0, 1)), ((1, 0),), ((0, 1),), ((0, 0), (1,)), ((-1, 0),)]
)
def test_margins_that_were_made_by_hand_are_checked(margins: Any) -> None:
    query = replace(parse_sql(BY + "dept, ok", PEOPLE), margins=margins)
    with pytest.raises(QueryRefused, match="margins"):
        bound_cells(query, PEOPLE, Neighbours.ADD_REMOVE)


def test_margins_of_wrong_types_are_refused() -> None:
    query = replace(parse_sql(BY + "dept, ok", PEOPLE), margins=(("dept",),))  # type: ignore[arg-type]
    with pytest.raises(QueryRefused, match="margins of Query"):
        read_query(query, PEOPLE)


def test_sets_of_unknown_groupings_are_refused() -> None:
    built = select(n=count()).group_by("dept", "ok")
    with pytest.raises(QueryRefused, match="`age` is not grouped by"):
        built.grouping_sets(("dept", "age"))
    with pytest.raises(QueryRefused, match="list of names"):
        built.grouping_sets("dept")
    with pytest.raises(QueryRefused, match="margins of the query"):
        bound_cells(read_query(built.grouping_sets(("dept",)), PEOPLE), PEOPLE, Neighbours.ADD_REMOVE)


def test_a_query_for_several_tables_is_no_single_query() -> None:
    with pytest.raises(QueryRefused, match=r"asks for 4 tables at once.*discreet\.tabulate\(session.*discreet tabulate"):
        bound_contributions(parse_sql(BY + "CUBE(dept, ok)", PEOPLE), PEOPLE, Neighbours.ADD_REMOVE)


def test_a_session_refuses_it_before_anything_is_paid() -> None:
    import pandas as pd

    rows = pd.DataFrame({"id": [1, 2], "dept": ["a", "b"]})
    session = connect(rows, name="people", unit="id", epsilon=1, keys={"dept": ["a", "b"]})
    before = session.account.budget
    for use in (session.ask, session.quote):
        with pytest.raises(QueryRefused, match="2 tables at once"):
            use("SELECT dept, COUNT(*) AS n FROM people GROUP BY CUBE(dept)", epsilon=0.1)
    assert session.account.budget == before


@pytest.mark.parametrize(
    ("neighbours", "said"),
    [
        (Neighbours.ADD_REMOVE, "Adding or removing one id changes each table by at most"),
        (Neighbours.REPLACE, "Replacing one id takes at most"),
    ],
)
def test_what_one_unit_can_change_is_said_for_all_tables(neighbours: Neighbours, said: str) -> None:
    bounded = bound_cells(parse_sql(BY + "dept, ok", PEOPLE), PEOPLE, neighbours)
    text = explain_cells(bounded)
    assert text.startswith(said)
    assert f"{bounded.max_change:,} row" in text
