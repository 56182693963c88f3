"""Golden SQL, for reviewers: one file per engine and query. `python -m tests.engines.test_golden_sql` writes them anew."""

from dataclasses import replace
from pathlib import Path

import pytest
import sqlglot

from discreet.query.cells import bound_cells
from discreet.query.contribution import BOUNDING, FIRST_BOUNDING, bound_contributions
from discreet.query.parser import parse_sql
from discreet.query.schema import Column, Kind, PublicTable, Table
from discreet.units import Neighbours
from tests.support.statement_engine import COLUMNS, ENGINES, StatementEngine

FOLDER = Path(__file__).parent / "golden"
CITIES = PublicTable(
    "cities", {"city": Column(Kind.INTEGER), "region": Column(Kind.TEXT, keys=("n", "s"))}, frozenset({"city"})
)
CODES = Column(Kind.TEXT, keys=(*map("{:03d}".format, range(4)), "b's", None, "C,", "d", "\\", "e"))
QUERIES: dict[str, tuple[str, bool]] = {
    "count": ("SELECT COUNT(*) AS n FROM people", False),
    "count by listed keys": ("SELECT dept, COUNT(*) AS n, COUNT(DISTINCT uid) AS u FROM people GROUP BY dept", False),
    "sums by unknown keys": (
        "SELECT day, SUM(pay) AS s, SUM(points) AS p, COUNT(price) AS c FROM people GROUP BY day",
        False,
    ),
    "variance": ("SELECT VARIANCE(age) AS v, AVG(price) AS m FROM people", False),
    "correlation": ("SELECT dept, CORR(price, age * 2) AS r FROM people GROUP BY dept", False),
    "one row per unit": ("SELECT age // 10 AS decade, AVG(pay) AS m FROM people GROUP BY age // 10", True),
    "conditions": (
        "SELECT COUNT(*) AS n FROM people WHERE (dept = 'b''s' OR dept IS NULL) AND at >= '2024-01-01 12:00:00' AND "
        "NOT day = '2024-02-29' AND ok AND pay IN (0.1, 2) AND age * 2 < points AND CASE WHEN ok THEN age ELSE 1 END > 3",
        False,
    ),
    "functions": (
        "SELECT SUM(age / 2) AS a, SUM(pay / 12) AS b, SUM(ROUND(pay, 1)) AS c, SUM(CEIL(price)) AS d, SUM(ABS(age)) AS e, "
        "SUM(COALESCE(age, points, 0)) AS f, SUM(GREATEST(age, 3)) AS g, SUM(NULLIF(points, 7)) AS h FROM people",
        True,
    ),
    "dates": (
        "SELECT YEAR(day) AS y, DATE_TRUNC('week', at) AS w, SUM(ISODOW(at)) AS s, SUM(HOUR(at)) AS h FROM people "
        "WHERE dept LIKE 'b_''%' AND at >= DATE '2024-01-01' GROUP BY YEAR(day), DATE_TRUNC('week', at)",
        True,
    ),
    "median": ("SELECT dept, MEDIAN(price) AS m FROM people GROUP BY dept", False),
    "histogram": ("SELECT HISTOGRAM(age, 0, 18, 65, 120) AS h FROM people", True),
    "cells": ("SELECT dept, age // 10 AS decade, COUNT(*) AS n FROM people GROUP BY CUBE(dept, age // 10)", False),
    "cells of one row per unit": (
        "SELECT code, dept, SUM(price) AS s FROM people WHERE ok GROUP BY GROUPING SETS ((code, dept), (code))",
        True,
    ),
    "several keys": (
        "SELECT dept, city, day, ok, COUNT(*) AS n FROM people WHERE age > 1 GROUP BY dept, city, day, ok",
        False,
    ),
    "distinct": ("SELECT code, COUNT(DISTINCT city) AS c, COUNT(*) AS n FROM people GROUP BY code", False),
    "join": ("SELECT cities.region, COUNT(*) AS n FROM people LEFT JOIN cities USING (city) GROUP BY cities.region", False),
}


ORDERED = ("sums by unknown keys", "median", "several keys", "distinct")
"""Queries in which an order decides which contributions are kept."""


def format_statements(engine: str, name: str, bounding: int = BOUNDING) -> str:
    """Return every statement of a query, with line breaks."""
    text, unique = QUERIES[name]
    columns = {**COLUMNS, "code": CODES} if "code" in text else COLUMNS
    table = Table("people", "uid", columns, 3, 10, unique, public={"cities": CITIES})
    query, (dialect, readers) = parse_sql(text, table), ENGINES[engine]
    compiling = StatementEngine(dialect, readers, columns)
    if query.margins:
        bounded = bound_cells(query, table, Neighbours.ADD_REMOVE)
        statements: tuple[str, ...] = (compiling.compile_cells(bounded, ordered_columns=1),)
    else:
        versioned = replace(bound_contributions(query, table, Neighbours.ADD_REMOVE), bounding=bounding)
        statements = compiling.compile_all(versioned)
    formatted = (
        sqlglot.parse_one(statement, dialect=dialect.name).sql(dialect=dialect.name, pretty=True) for statement in statements
    )
    return f"-- {text}\n" + "".join(f"{statement};\n" for statement in formatted)


def golden_path(engine: str, name: str, bounding: int = BOUNDING) -> Path:
    """Return the file of a query. The first version of contribution bounding has files where its statement differs."""
    own = FOLDER / engine / f"{name.replace(' ', '_')}.sql"
    first = own.parent / "first_bounding" / own.name
    return first if bounding == FIRST_BOUNDING and name in ORDERED else own


@pytest.mark.parametrize("bounding", [FIRST_BOUNDING, BOUNDING])
@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("engine", ENGINES)
def test_statements_are_those_that_were_reviewed(engine: str, name: str, bounding: int) -> None:
    expected = golden_path(engine, name, bounding).read_text(encoding="utf-8")
    assert format_statements(engine, name, bounding) == expected


def test_no_statement_has_words_of_another_dialect() -> None:
    for engine, foreign in {
        "postgres": ("ISNAN", "HUGEINT", "INT128", "//", "`"),
        "spark": ("ISNAN", "HUGEINT", '"'),
    }.items():
        statements = "".join(format_statements(engine, name).partition("\n")[2] for name in QUERIES)
        assert not [word for word in foreign if word in statements]


if __name__ == "__main__":
    for engine in ENGINES:
        (FOLDER / engine / "first_bounding").mkdir(parents=True, exist_ok=True)
        for name in QUERIES:
            for bounding in (FIRST_BOUNDING, BOUNDING):
                written = format_statements(engine, name, bounding)
                golden_path(engine, name, bounding).write_text(written, encoding="utf-8")
