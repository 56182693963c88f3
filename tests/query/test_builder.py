"""Queries in Python and in SQL are the same queries."""

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from fractions import Fraction
from random import Random
from typing import Any

import pytest

from discreet import QueryRefused, col, count, count_units, select, when
from discreet.query import aggregates, ast
from discreet.query.parser import parse_sql, read_query
from discreet.query.schema import Column, Kind, Table
from tests.support import random_tables
from tests.support.people import session
from tests.support.rebuilt_queries import rebuilt

SHARES = [aggregates.MIN_QUANTILE, aggregates.MAX_QUANTILE, Fraction(1, 2), Fraction(9, 10), Fraction(1, 1000)]
WORDS = {aggregates.MIN_QUANTILE: "MIN", aggregates.MAX_QUANTILE: "MAX", Fraction(1, 2): "MEDIAN"}
PEOPLE = Table(
    "people",
    "id",
    {
        "id": Column(Kind.INTEGER),
        "age": Column(Kind.INTEGER).with_bounds(18, 65),
        "pay": Column(Kind.REAL).with_bounds(0, Fraction(3, 10)),
        "ok": Column(Kind.BOOLEAN),
        "dept": Column(Kind.TEXT),
        "day": Column(Kind.DATE),
    },
)


def random_query(rng: Random) -> ast.Query:
    """A random query, some of it quantiles and histograms."""
    query = random_tables.random_query(rng)
    more = [
        aggregates.Quantile(random_tables.value(rng), rng.choice(SHARES)),
        aggregates.Histogram(
            random_tables.value(rng), tuple(sorted(rng.sample(random_tables.NUMBERS, rng.choice([2, 3, 6]))))
        ),
    ]
    return replace(query, aggregates=(*query.aggregates, *((f"b{i}", each) for i, each in enumerate(more))))


def written_in_sql(query: ast.Query) -> str:
    """With MIN, MAX and MEDIAN where they are meant."""
    text = random_tables.text(query)
    for name, each in query.aggregates:
        if isinstance(each, aggregates.Quantile) and each.q in WORDS:
            plain = f"{random_tables.written(each)} AS {name}"
            text = text.replace(plain, f"{WORDS[each.q]}({random_tables.written(each.value)}) AS {name}")
    return text


def unlike(build: Callable[[ast.Query], Any], seeds: range) -> list[int]:
    """The seeds at which text and builder disagree."""
    found = []
    for seed in seeds:
        rng = Random(seed)
        query, table = random_query(rng), random_tables.policy(rng, unique=False, text_units=False)
        if not parse_sql(written_in_sql(query), table) == read_query(build(query), table) == query:
            found.append(seed)
    return found


def test_text_and_python_are_the_same_query() -> None:
    assert unlike(rebuilt, range(600)) == []


def test_a_builder_that_forgets_the_condition_is_noticed() -> None:
    assert unlike(lambda query: replace(rebuilt(query), condition=None), range(20))


SAME: list[tuple[str, Any]] = [
    ("SELECT COUNT(*) AS n FROM people WHERE ok AND NOT ok", select(n=count()).where(col("ok") & ~col("ok"))),
    ("SELECT COUNT(*) AS n FROM people WHERE ok AND age > 1", select(n=count()).where(col("ok"), col("age") > 1)),
    (
        "SELECT COUNT(*) AS n FROM people WHERE age BETWEEN 1 AND 2 OR ok",
        select(n=count()).where(col("age").between(1, 2) | col("ok")),
    ),
    ("SELECT COUNT(*) AS n FROM people WHERE day >= '2024-02-29'", select(n=count()).where(col("day") >= date(2024, 2, 29))),
    ("SELECT COUNT(*) AS n FROM people WHERE dept IS NOT NULL", select(n=count()).where(col("dept").is_not_null())),
    ("SELECT COUNT(DISTINCT id) AS n, SUM(-age) AS s FROM people", select(n=count_units(), s=(-col("age")).sum())),
    ("SELECT AVG(1.5 - pay * 2) AS m FROM people", select(m=(1.5 - col("pay") * 2).mean())),
    ("SELECT QUANTILE(age, 0.9) AS q FROM people", select(q=col("age").quantile(0.9))),
    ("SELECT QUANTILE_CONT(age, 0.9) AS q FROM people", select(q=col("age").quantile("0.9"))),
    ("SELECT QUANTILE_DISC(age, 0.9) AS q FROM people", select(q=col("people.age").quantile(Fraction(9, 10)))),
    ("SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY age) AS q FROM people", select(q=col("age").median())),
    ("SELECT MIN(age) AS a, MAX(age) AS b FROM people", select(a=col("age").min(), b=col("age").max())),
    ("SELECT HISTOGRAM(age, 10) AS h FROM people", select(h=col("age").histogram(10))),
    ("SELECT HISTOGRAM(pay, 0.1) AS h FROM people", select(h=col("pay").histogram("0.1"))),
    ("SELECT HISTOGRAM(age + 1, 2.5) AS h FROM people", select(h=(col("age") + 1).histogram(2.5))),
    ("SELECT HISTOGRAM(age, -1, 0, 1.5) AS h FROM people", select(h=col("age").histogram(-1, 0, 1.5))),
    (
        "SELECT SUM(CASE WHEN ok THEN 1 WHEN age > 3 THEN age ELSE 0 END) AS s FROM people",
        select(s=when(col("ok")).then(1).when(col("age") > 3).then(col("age")).otherwise(0).sum()),
    ),
    ("SELECT dept, COUNT(*) AS n FROM people GROUP BY dept", select(n=count()).group_by("dept")),
    ("SELECT age // 10 AS d, COUNT(*) AS n FROM people GROUP BY d", select(n=count()).group_by(d=col("age") // 10)),
    ("SELECT SUM(age / 12) AS s FROM people", select(s=(col("age") / 12).sum())),
    ("SELECT SUM(ROUND(pay, 1) + FLOOR(pay) - CEIL(pay)) AS s FROM people",
     select(s=(col("pay").round(1) + col("pay").floor() - col("pay").ceil()).sum())),
    ("SELECT SUM(ABS(age)) AS s, AVG(COALESCE(age, 0)) AS m FROM people",
     select(s=col("age").abs().sum(), m=col("age").coalesce(0).mean())),
    ("SELECT SUM(GREATEST(age, pay, 3)) AS s, SUM(LEAST(age, 3)) AS l, SUM(NULLIF(age, 7)) AS z FROM people",
     select(s=col("age").greatest(col("pay"), 3).sum(), l=col("age").least(3).sum(),
            z=col("age").null_if(7).sum())),
    ("SELECT YEAR(day) AS y, DATE_TRUNC('month', day) AS m, COUNT(*) AS n FROM people WHERE dept LIKE 'a%' AND "
     "DATE_TRUNC('week', day) >= '2024-01-01' AND day < DATE '2025-01-01' AND MONTH(day) IN (1, 2) GROUP BY y, m",
     select(n=count()).where(col("dept").like("a%"), col("day").date_trunc("week") >= date(2024, 1, 1),
                             col("day") < date(2025, 1, 1), col("day").month().is_in([1, 2]))
     .group_by(y=col("day").year(), m=col("day").date_trunc("month"))),
    ("SELECT COUNT(DISTINCT DATE_TRUNC('day', day)) AS n FROM people WHERE age + 1 IS NOT NULL",
     select(n=col("day").date_trunc("day").count_distinct()).where((col("age") + 1).is_not_null())),
]  # fmt: skip


@pytest.mark.parametrize(("text", "built"), SAME)
def test_both_ways_lead_to_one_query(text: str, built: Any) -> None:
    assert parse_sql(text, PEOPLE) == read_query(built, PEOPLE)


MISTAKES: dict[str, Callable[[], Any]] = {  # a part of the message, and what is done
    "Use &, | and ~": lambda: (col("a") > 1) and (col("a") < 3),
    "in place of and": lambda: 1 if (col("a") > 1) | (col("b") > 1) else 2,
    "between": lambda: 1 < col("a") < 3,
    "for if": lambda: 1 if col("a") else 2,
    "is_in": lambda: col("a") in [1, 2],
    "division by a column": lambda: col("a") / col("b"),
    "A division by a column": lambda: 2 / col("a"),
    "division by zero": lambda: col("a") / 0.0,
    "-15 to 15 digits": lambda: col("a").round(16),
    "round takes": lambda: col("a").round(1.5),  # type: ignore[arg-type]
    "coalesce takes at least one other": lambda: col("a").coalesce(),
    "greatest takes at least one other": lambda: col("a").greatest(),
    "least takes at least one other": lambda: col("a").least(),
    "year works on a column": lambda: (col("a") + 1).year(),
    "date_trunc works on a column": lambda: (col("a") + 1).date_trunc("month"),
    "takes a period, not 'hour'. Use one of day, week": lambda: col("a").date_trunc("hour"),
    "like takes a text, not a int": lambda: col("a").like(5),  # type: ignore[arg-type]
    "like works on a column": lambda: (col("a") + 1).like("a%"),
    "not an integer above 0": lambda: col("a") // 1.5,
    "No value equals None": lambda: col("a") == None,  # noqa: E711
    "list of constants": lambda: col("a").is_in("abc"),
    "at least one": lambda: col("a").is_in([]),
    "not a finite number": lambda: col("a") + float("nan"),
    "list is not": lambda: col("a") * [1],
    "too fine": lambda: col("a") + 1e-300,
    "not a condition": lambda: col("a") > 1 & col("b") > 1,
    "`n` is not an aggregate": lambda: select(n=col("a")),
    "needs a name": lambda: select(n=count()).group_by(col("a") // 10),
    "by columns, bins, integers and parts of dates only": lambda: select(n=count()).group_by(x=col("a") + 1),
    "given for `b`": lambda: select(n=count()).group_by("a", keys={"b": (1,)}),
    "between 0 and 1": lambda: col("a").quantile(1),
    "must increase": lambda: col("a").histogram(1, 1),
    "at least two edges": lambda: col("a").histogram(),
    "no open case": lambda: when(col("a") > 1).then(1).otherwise(0).otherwise(1),
    "the name of a column, not ''": lambda: col(""),
}


@pytest.mark.parametrize("message", MISTAKES)
def test_mistakes_are_named(message: str) -> None:
    with pytest.raises(QueryRefused) as refusal:
        MISTAKES[message]()
    assert message in str(refusal.value)


def test_a_session_takes_all_three() -> None:
    place = session(epsilon=10**7)
    text = "SELECT dept, COUNT(*) AS n FROM people WHERE age >= 30 GROUP BY dept"
    built = select(n=count()).where(col("age") >= 30).group_by("dept")
    for query in (text, built, parse_sql(text, place.table)):
        assert [round(row[0].value) for _, row in place.ask(query, epsilon=10**6).rows] == [480, 240, 80]
        assert place.quote(query, epsilon=1).query_text == text
        assert place.find_epsilon(query, 10) == place.find_epsilon(text, 10)
    listed = place.ask(built.group_by("age", keys={"age": (30, 31)}).where(col("dept") == "a"), epsilon=10)
    assert [keys for keys, _ in listed.rows][:2] == [("a", 30), ("a", 31)]


JOINS: list[Any] = [("a",), ("a", "b", "c"), 5, ("a", 5), ["a", "b"]]


@pytest.mark.parametrize("on", JOINS)
def test_a_join_is_by_two_names(on: Any) -> None:
    with pytest.raises(QueryRefused, match="one column of either table"):
        select(n=count()).join("cities", on=on)


@pytest.mark.parametrize("listed", ["abc", 5])
def test_keys_of_a_grouping_are_a_list(listed: Any) -> None:
    with pytest.raises(QueryRefused, match="The keys of `dept` are not a list"):
        select(n=count()).group_by("dept", keys={"dept": listed})
