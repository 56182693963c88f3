"""A table of invented people that the tests of sessions share: one row per person."""

from functools import cache
from typing import Any

import duckdb

from discreet.session.connect import connect
from discreet.session.session import Session

DEPARTMENTS = ("a", "b", "c")
COUNTS = {"a": 600, "b": 300, "c": 100}
BY_DEPARTMENT = "SELECT dept, COUNT(*) AS n FROM people GROUP BY dept"
EVERYTHING = (
    "SELECT dept, COUNT(*) AS n, COUNT(DISTINCT id) AS u, SUM(age) AS years, SUM(pay) AS cost, AVG(pay) AS mean, "
    "VARIANCE(pay) AS v, STDDEV(pay) AS d FROM people GROUP BY dept"
)


def people() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE people AS SELECT i AS id, CASE WHEN i < 600 THEN 'a' WHEN i < 900 THEN 'b' ELSE 'c' END AS dept, "
        "(50 + i % 101)::DOUBLE AS pay, (20 + i % 50)::INTEGER AS age FROM range(1000) t(i)"
    )
    return connection


@cache
def _people_once() -> duckdb.DuckDBPyConnection:
    return people()


def session(epsilon: Any = 10, delta: Any = 0, source: duckdb.DuckDBPyConnection | None = None, **more: Any) -> Session:
    """A session over the people. Its connection is its own, and its database that of all sessions of this process, because
    DuckDB takes long to open one: a test that changes the table gives a source, `people()`."""
    declared: dict[str, Any] = {
        "unit": "id", "table": "people", "bounds": {"pay": (0, 200), "age": (0, 100)}, "keys": {"dept": DEPARTMENTS},
        "unique": True,
    }  # fmt: skip
    return connect(source or _people_once().cursor(), epsilon=epsilon, delta=delta, **(declared | more))
