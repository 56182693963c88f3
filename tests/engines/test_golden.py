"""What runs, for a reviewer: one file per engine and plan. `python -m tests.engines.test_golden` writes them anew."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlglot
from pyspark.sql import types
from sqlglot import exp

from discreet.engines.base import ColumnReader, SqlEngine, quote_table
from discreet.engines.postgres.engine import _compare_bytewise, _to_double_guarded, _to_whole
from discreet.engines.spark.engine import reader_of
from discreet.query.contribution import bound_contributions
from discreet.query.parser import parse_sql
from discreet.query.schema import Column, Kind, PublicTable, Table
from discreet.sql.dialects import DUCKDB, POSTGRES, SPARK, Dialect
from discreet.units import Neighbours

FOLDER = Path(__file__).parent / "golden"
ENGINES: dict[str, tuple[Dialect, dict[str, ColumnReader]]] = {
    "duckdb": (DUCKDB, {"price": lambda column: exp.cast(column, "DOUBLE", dialect="duckdb")}),
    "postgres": (
        POSTGRES,
        {
            "uid": _compare_bytewise, "dept": _compare_bytewise, "price": _to_double_guarded, "points": _to_whole,
            "at": lambda column: exp.AtTimeZone(this=column, zone=exp.Literal.string("UTC")),
        },
    ),
    "spark": (
        SPARK,
        {
            "uid": reader_of(types.StringType()), "dept": reader_of(types.StringType(), padded=True),
            "price": reader_of(types.DecimalType(18, 3)), "at": reader_of(types.TimestampType()),
        },
    ),
}  # fmt: skip
COLUMNS = {
    "uid": Column(Kind.TEXT), "dept": Column(Kind.TEXT, keys=("a", "b's", None)), "city": Column(Kind.INTEGER),
    "age": Column(Kind.INTEGER).with_bounds(0, 120), "pay": Column(Kind.REAL).with_bounds(-1, 10**9),
    "price": Column(Kind.REAL).with_bounds(0, 1), "points": Column(Kind.INTEGER).with_bounds(0, 2**40),
    "ok": Column(Kind.BOOLEAN),
    "day": Column(Kind.DATE), "at": Column(Kind.TIMESTAMP),
}  # fmt: skip
CITIES = PublicTable(
    "cities", {"city": Column(Kind.INTEGER), "region": Column(Kind.TEXT, keys=("n", "s"))}, frozenset({"city"})
)
PLANS: dict[str, tuple[str, bool]] = {
    "count": ("SELECT COUNT(*) AS n FROM people", False),
    "count by listed keys": ("SELECT dept, COUNT(*) AS n, COUNT(DISTINCT uid) AS u FROM people GROUP BY dept", False),
    "sums by unknown keys": (
        "SELECT day, SUM(pay) AS s, SUM(points) AS p, COUNT(price) AS c FROM people GROUP BY day",
        False,
    ),
    "variance": ("SELECT VARIANCE(age) AS v, AVG(price) AS m FROM people", False),
    "one row per unit": ("SELECT age // 10 AS decade, AVG(pay) AS m FROM people GROUP BY age // 10", True),
    "conditions": (
        "SELECT COUNT(*) AS n FROM people WHERE (dept = 'b''s' OR dept IS NULL) AND at >= '2024-01-01 12:00:00' AND "
        "NOT day = '2024-02-29' AND ok AND pay IN (0.1, 2) AND age * 2 < points AND CASE WHEN ok THEN age ELSE 1 END > 3",
        False,
    ),
    "median": ("SELECT dept, MEDIAN(price) AS m FROM people GROUP BY dept", False),
    "histogram": ("SELECT HISTOGRAM(age, 0, 18, 65, 120) AS h FROM people", True),
    "join": ("SELECT cities.region, COUNT(*) AS n FROM people LEFT JOIN cities USING (city) GROUP BY cities.region", False),
}


class OnPaper(SqlEngine):
    """An engine that runs nothing."""

    def __init__(self, dialect: Dialect, readers: dict[str, ColumnReader]) -> None:
        self.dialect = dialect
        super().__init__("people", "on paper", quote_table("people"), {name: readers.get(name) for name in COLUMNS})

    def _public_relation(self, name: str) -> exp.Expr:
        return quote_table("copy of cities")

    def _execute(self, statement: str) -> Iterator[tuple[Any, ...]]:
        raise AssertionError("a statement on paper is not run")


def written(engine: str, plan: str) -> str:
    """Every statement of a plan, laid out."""
    text, unique = PLANS[plan]
    table = Table("people", "uid", COLUMNS, 3, 10, unique, public={"cities": CITIES})
    question = bound_contributions(parse_sql(text, table), table, Neighbours.ADD_REMOVE)
    dialect, readings = ENGINES[engine]
    laid_out = (
        sqlglot.parse_one(statement, dialect=dialect.name).sql(dialect=dialect.name, pretty=True)
        for statement in OnPaper(dialect, readings).compile_all(question)
    )
    return f"-- {text}\n" + "".join(f"{statement};\n" for statement in laid_out)


def place(engine: str, plan: str) -> Path:
    return FOLDER / engine / f"{plan.replace(' ', '_')}.sql"


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("engine", ENGINES)
def test_what_runs_is_what_was_reviewed(engine: str, plan: str) -> None:
    assert written(engine, plan) == place(engine, plan).read_text(encoding="utf-8")


def test_nothing_is_left_from_another_dialect() -> None:
    for engine, strange in {
        "postgres": ("ISNAN", "HUGEINT", "INT128", "//", "`"),
        "spark": ("ISNAN", "HUGEINT", '"'),
    }.items():
        statements = "".join(written(engine, plan).partition("\n")[2] for plan in PLANS)
        assert not [word for word in strange if word in statements]


if __name__ == "__main__":
    for engine in ENGINES:
        (FOLDER / engine).mkdir(parents=True, exist_ok=True)
        for plan in PLANS:
            place(engine, plan).write_text(written(engine, plan), encoding="utf-8")
