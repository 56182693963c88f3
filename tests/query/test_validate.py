"""A query that was built in Python or by hand passes the same checks as SQL, before it is charged."""

from fractions import Fraction
from typing import Any

import pytest

from discreet import Neighbours, QueryRefused, col, select
from discreet.query import aggregates, ast
from discreet.query.contribution import bound_contributions
from discreet.query.parser import parse_sql
from discreet.query.schema import Column, Kind, PublicTable, Table
from tests.support.people import session

PEOPLE = Table(
    "people",
    "id",
    {
        "id": Column(Kind.INTEGER),
        "dept": Column(Kind.TEXT, keys=("a", "b", "c")),
        "pay": Column(Kind.REAL).with_bounds(0, 200),
    },
)


AGE = ast.Ref("age")
WRONG: dict[str, ast.Query] = {
    "`other` is not known": ast.Query("other", (("n", aggregates.CountRows()),)),
    "no aggregate": ast.Query("people", ()),
    "are called `n`": ast.Query("people", (("n", aggregates.CountRows()), ("n", aggregates.CountRows()))),
    "grouped twice": ast.Query("people", (("n", aggregates.CountRows()),), groups=tuple(ast.Grouping(x, AGE) for x in "ab")),
    "of `a` are empty or repeated": ast.Query(
        "people", (("n", aggregates.CountRows()),), groups=(ast.Grouping("a", AGE, (1, 1)),)
    ),
    "`x` is not declared": ast.Query("people", (("n", aggregates.CountValues(ast.Ref("x"))),)),
    "share between": ast.Query("people", (("n", aggregates.Quantile(AGE, Fraction(1))),)),
    "a share": ast.Query("people", (("n", aggregates.Quantile(AGE, 0.5)),)),  # type: ignore[arg-type]
    "must increase": ast.Query("people", (("n", aggregates.Histogram(AGE, (Fraction(1), Fraction(0)))),)),
    "two edges": ast.Query("people", (("n", aggregates.Histogram(AGE, (Fraction(1),))),)),
    "1,000 cells": ast.Query("people", (("n", aggregates.Histogram(AGE, tuple(map(Fraction, range(1002))))),)),
    "An edge is": ast.Query("people", (("n", aggregates.Histogram(AGE, (Fraction(0), Fraction(10**16)))),)),
    "too large": ast.Query("people", (("n", aggregates.Sum(ast.Number(Fraction(10**16)))),)),
    "width above 0": ast.Query("people", (("n", aggregates.Sum(ast.Bin(AGE, 0))),)),
    "is empty": ast.Query("people", (("n", aggregates.CountRows()),), ast.All(())),
    "`x` is not a public table": ast.Query("people", (("n", aggregates.CountRows()),), joins=(ast.Join("x", "age", "age"),)),
}


@pytest.mark.parametrize("message", WRONG)
def test_a_wrong_query_is_refused_before_it_is_charged(message: str) -> None:
    place = session()
    with pytest.raises(QueryRefused, match=message):
        place.ask(WRONG[message], epsilon=1)
    assert place.account.budget.spent == 0


def test_a_deep_query_is_refused() -> None:
    deep: Any = col("age")
    for _ in range(5000):
        deep = deep + 1
    with pytest.raises(QueryRefused, match="too deep"):
        session().ask(select(s=deep.sum()), epsilon=1)


@pytest.mark.parametrize(
    ("bounds", "width", "edges"),
    [
        ((18, 65), "10", "10 20 30 40 50 60 70"),
        ((0, Fraction(3, 10)), "0.1", "0 1/10 1/5 3/10"),
        ((-5, 5), "20", "-20 0 20"),
        ((0, 1), "7", "0 7"),
    ],
)
def test_edges_are_multiples_of_the_width_that_cover_the_bounds(bounds: Any, width: str, edges: str) -> None:
    table = Table("people", "id", {"id": Column(Kind.INTEGER), "x": Column(Kind.REAL).with_bounds(*bounds)})
    [(_, found)] = parse_sql(f"SELECT HISTOGRAM(x, {width}) AS h FROM people", table).aggregates
    assert isinstance(found, aggregates.Histogram)
    assert " ".join(map(str, found.edges)) == edges


def of(*aggregates: tuple[str, Any], **more: Any) -> ast.Query:
    return ast.Query("people", aggregates, **more)


MISPLACED: list[tuple[Any, str]] = [
    (of(("n", 5)), "The aggregates of Query"),
    (of(("n", aggregates.Sum(None))), "The value of Sum is missing"),  # type: ignore[arg-type]
    (of(("n", aggregates.CountRows()), where=5), "The where of Query is an int"),
    (of(("n", aggregates.CountRows()), where=ast.Not("x")), "The part of Not is a str"),  # type: ignore[arg-type]
    (of(("n", aggregates.CountRows()), groups=["dept"]), "The groups of Query is a list"),
    (select(n=aggregates.Sum(None)), "The value of Sum is missing"),  # type: ignore[arg-type]
    (of(("n", aggregates.Sum(ast.Bin(AGE, [])))), "The width of Bin is a list"),  # type: ignore[arg-type]
    (of(("n", aggregates.Sum(ast.Number(ast.Ref)))), "The value of Number is a type"),  # type: ignore[arg-type]
    (of(("n", aggregates.Histogram(AGE, (ast.Ref, Fraction(1))))), "The edges of Histogram is a tuple"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("more", [{}, {"bounds": "auto"}])
@pytest.mark.parametrize(("query", "message"), MISPLACED)
def test_a_part_that_does_not_belong_there_is_refused_before_it_is_charged(
    query: Any, message: str, more: dict[str, Any]
) -> None:
    place = session(**more)
    with pytest.raises(QueryRefused, match=message):
        place.ask(query, epsilon=1)
    assert place.account.budget.spent == 0


@pytest.mark.parametrize(
    "columns",
    [
        "COUNT(*) AS n, SUM(pay) AS n_lower",
        "SUM(pay) AS n_reliable, COUNT(*) AS n",
        'HISTOGRAM(pay, 100) AS h, COUNT(*) AS "h[0,100)"',
        "dept AS n_upper, COUNT(*) AS n",
    ],
)
def test_no_two_columns_of_a_table_have_one_name(columns: str) -> None:
    grouped = " GROUP BY dept" * columns.startswith("dept")
    with pytest.raises(QueryRefused, match="another name"):
        bound_contributions(parse_sql(f"SELECT {columns} FROM people{grouped}", PEOPLE), PEOPLE, Neighbours.ADD_REMOVE)


def test_a_name_of_two_columns_is_explained_by_names_that_mean_one() -> None:
    number = Column(Kind.INTEGER)
    joined = PublicTable("q", {"city": number, "id": number}, frozenset({"city"}))
    table = Table("p", "id", {"id": number, "city": number}, public={"q": joined})
    query = "SELECT COUNT(*) AS n FROM p JOIN q ON p.city = q.city WHERE {} > 1"
    with pytest.raises(QueryRefused, match=r"`id` means 2 columns\. Write p\.id or q\.id"):
        parse_sql(query.format("id"), table)
    for name in ("p.id", "q.id"):
        parse_sql(query.format(name), table)


def test_edges_that_look_the_same_are_refused() -> None:
    with pytest.raises(QueryRefused, match="12 digits"):
        col("pay").histogram(1, "1.0000000000001", "1.0000000000002")


@pytest.mark.parametrize("name", ["", "\0", "n\ud800", "n\nm", "n\u202em", "\u2028", "\x1b[2J"], ids=ascii)
def test_names_that_cannot_be_shown_are_refused_before_they_are_charged(name: str) -> None:
    """In Python, in SQL and in a query as it is: an answer is printed, and its names are recorded."""
    asked = session()
    count = aggregates.CountRows()
    built: list[Any] = [
        select(**{name: count}), select(n=count).group_by(**{name: col("dept")}),
        select(n=count).having(col("n") > 1, **{name: count}), ast.Query("people", ((name, count),)),
        f'SELECT COUNT(*) AS "{name}" FROM people', f'SELECT dept AS "{name}", COUNT(*) AS n FROM people GROUP BY dept',
    ]  # fmt: skip
    for query in built:
        for call in (asked.quote, asked.ask):
            with pytest.raises(QueryRefused):
                call(query, epsilon=1)
    assert asked.budget.remaining == 10
