"""Pitfalls of engines, each shown twice: what the engine does by itself, and that discreet computes or refuses instead."""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import md5
from math import nan
from typing import Any

import pytest
from sqlglot import exp

from discreet.engines.base import Engine
from discreet.errors import QueryRefused
from discreet.query.contribution import BoundedQuery, bound_contributions
from discreet.query.parser import parse_sql
from discreet.query.schema import Column, Kind, Table
from discreet.sql.dialects import Dialect, bigint_literal
from discreet.units import Neighbours
from tests.support.engine_differences import DIFFERENCES
from tests.support.oracle import reference
from tests.support.random_tables import World, exactly

TYPE_NAMES = {"duckdb": ("DOUBLE", "VARCHAR"), "postgres": ("DOUBLE PRECISION", "TEXT"), "spark": ("DOUBLE", "STRING")}
TEXTS = "SELECT 1 AS id, 'secret' AS s, FALSE AS ok UNION ALL SELECT 2, '7', TRUE"
"""One text that is not a number, and a column that says so."""
TYPES = {"uid": "BIGINT", "x": "DOUBLE", "n": "BIGINT", "t": "VARCHAR"}


@dataclass(frozen=True)
class EngineUnderTest:
    """An engine by itself, and as discreet uses it."""

    dialect: Dialect
    run: Callable[[str], list[Any]]  # a statement as it is
    open_world: Callable[[World], Engine]

    def run_alone(self, statement: str) -> Any:
        """Return the one row of a statement, or "raises"."""
        double, text = TYPE_NAMES[self.dialect.name]
        try:
            return tuple(self.run(statement.format(double=double, text=text, texts=f"({TEXTS}) texts"))[0])
        except Exception:
            return "raises"

    def error_message(self, statement: str) -> str:
        """Return the message of the error that a statement raises."""
        with pytest.raises(Exception) as failure:  # noqa: PT011
            self.run(statement.format(texts=f"({TEXTS}) texts"))
        return str(failure.value)

    def run_query(self, sql: str, xs: list[Any], bounds: tuple[int, int]) -> Any:
        """Return the total of a query about these numbers, each of another person, after comparing it with the oracle."""
        table = World(_table(bounds), tuple({"uid": i, "x": x, "n": i, "t": "a"} for i, x in enumerate(xs)), TYPES)
        query = _bound(sql, table.table)
        found = exactly(self.open_world(table), query)
        assert found == reference(query, table.rows)
        [total] = found.values()
        return total.get((), 0)


def _table(bounds: tuple[int, int]) -> Table:
    columns = {
        "uid": Column(Kind.INTEGER),
        "x": Column(Kind.REAL).with_bounds(*bounds),
        "n": Column(Kind.INTEGER).with_bounds(0, 9),
        "t": Column(Kind.TEXT),
    }
    return Table("people", "uid", columns, unique=True)


def _bound(sql: str, table: Table) -> BoundedQuery:
    return bound_contributions(parse_sql(sql, table), table, Neighbours.ADD_REMOVE)


def is_refused(sql: str) -> bool:
    """Whether discreet refuses a query."""
    try:
        _bound(sql, _table((0, 1)))
    except QueryRefused:
        return True
    return False


SUM, COUNT = "SELECT SUM(x) AS s FROM people", "SELECT COUNT(x) AS n FROM people"


def nan_is_above_everything(engine: EngineUnderTest) -> None:
    assert engine.run_alone("SELECT LEAST(GREATEST(CAST('NaN' AS {double}), 0), 200)") == (200,)
    assert engine.run_query(SUM, [nan, 3.0], (0, 2**20)) == 3
    assert engine.run_query(COUNT, [nan, 3.0], (0, 2**20)) == 1


def null_is_passed_over(engine: EngineUnderTest) -> None:
    assert engine.run_alone("SELECT LEAST(60, NULL)") == (60,)
    assert engine.run_query(SUM, [None, 3.0], (0, 2**20)) == 3
    assert engine.run_query(COUNT, [None, 3.0], (0, 2**20)) == 1


def casts_round_as_they_like(engine: EngineUnderTest) -> None:
    cast = ", ".join(f"CAST(CAST('{x}' AS {{double}}) AS BIGINT)" for x in (2.5, 3.5, 2.7))
    assert engine.run_alone(f"SELECT {cast}") == DIFFERENCES["a double as BIGINT"].of(engine.dialect.name)
    assert [engine.run_query(SUM, [x], (-(2**20), 2**20)) for x in (2.5, 3.5, 2.7, -2.5, -2.7)] == [3, 4, 3, -2, -3]


def halves_are_lost_above_2_to_the_51(engine: EngineUnderTest) -> None:
    odd, half = f"CAST('{2**52 + 1}' AS {{double}})", "CAST('0.5' AS {double})"
    assert engine.run_alone(f"SELECT CAST(FLOOR({odd} + {half}) AS BIGINT)") == (2**52 + 2,)
    assert engine.run_query(SUM, [float(2**52 + 1)], (0, 2**53 - 1)) == 2**20  # a grid of twenty bits, whatever the bounds


def division_of_doubles_is_off_by_one(engine: EngineUnderTest) -> None:
    large = 27021597764222980
    assert engine.run_alone(f"SELECT CAST(FLOOR(CAST({large} AS {{double}}) / 3) AS BIGINT)") == (large // 3 + 1,)
    for a, b, quotient in ((large, 3, large // 3), (-7, 2, -3), (7, 2, 3)):
        statement = exp.select(engine.dialect.divide(bigint_literal(a), bigint_literal(b))).sql(dialect=engine.dialect.name)
        assert engine.run_alone(statement) == (quotient,)


def texts_of_doubles_differ(engine: EngineUnderTest) -> None:
    cast = ", ".join(f"CAST(CAST('{x}' AS {{double}}) AS {{text}})" for x in ("1e20", "1", "0.00001"))
    assert engine.run_alone(f"SELECT {cast}") == DIFFERENCES["the text of a double"].of(engine.dialect.name)
    assert is_refused("SELECT x, COUNT(*) AS n FROM people GROUP BY x")
    same = {
        "'ÅÄö日本😀'": "ÅÄö日本😀", "CAST(DATE '0001-01-01' AS {text})": "0001-01-01", "CAST(TRUE AS {text})": "true",
        "CAST(CAST(-9223372036854775807 AS BIGINT) AS {text})": "-9223372036854775807",
    }  # fmt: skip
    hashed = engine.run_alone(f"SELECT {', '.join(f'md5({text})' for text in same)}")
    assert hashed == tuple(md5(text.encode()).hexdigest() for text in same.values())


def a_cast_reveals_the_value(engine: EngineUnderTest) -> None:
    assert "secret" in engine.error_message("SELECT CAST(s AS INTEGER) FROM {texts}")
    assert is_refused("SELECT SUM(CAST(x AS INTEGER)) AS s FROM people")


def overflow_raises(engine: EngineUnderTest) -> None:
    assert engine.run_alone("SELECT MAX(9223372036854775807 + id) FROM {texts}") == "raises"
    largest = "SELECT SUM(x) FROM (SELECT CAST(9223372036854775807 AS BIGINT) AS x FROM {texts}) numbers"
    expected = DIFFERENCES["a sum of BIGINT by itself"].of(engine.dialect.name)
    assert engine.run_alone(largest) in (expected, (expected,))
    assert is_refused(f"SELECT SUM(x * {10**15} * {10**15}) AS s FROM people")
    assert is_refused("SELECT SUM(n + 9223372036854775807) AS s FROM people")


def zero_divides(engine: EngineUnderTest) -> None:
    found = engine.run_alone("SELECT MAX(1 / (id - 1)) FROM {texts}")
    assert (found == "raises") == (DIFFERENCES["division by zero"].of(engine.dialect.name) == "raises")
    assert is_refused("SELECT SUM(n // 0) AS s FROM people")
    assert is_refused("SELECT SUM(n / n) AS s FROM people")


def only_case_guards(engine: EngineUnderTest) -> None:
    assert engine.run_alone("SELECT SUM(CASE WHEN ok THEN CAST(s AS INTEGER) ELSE 0 END) FROM {texts}") == (7,)
    assert engine.run_alone("SELECT CASE WHEN MIN(id) > 1 THEN SUM(CAST(s AS INTEGER)) END FROM {texts}") == "raises"
    weak = {
        "FILTER as a guard": "SELECT SUM(CAST(s AS INTEGER)) FILTER (WHERE ok) FROM {texts}",
        "a guard in a join": "SELECT COUNT(*) FROM {texts} LEFT JOIN (SELECT 7 AS k UNION ALL SELECT 8) other "
        "ON ok AND CAST(s AS INTEGER) = k",
    }
    for name, statement in weak.items():
        assert (engine.run_alone(statement) == "raises") == (DIFFERENCES[name].of(engine.dialect.name) == "raises"), name


def the_least_integer_has_no_opposite(engine: EngineUnderTest) -> None:
    expected = DIFFERENCES["abs of the least integer"].of(engine.dialect.name)
    assert engine.run_alone("SELECT ABS(CAST('-9223372036854775808' AS BIGINT))") == expected
    assert engine.run_query("SELECT SUM(ABS(x)) AS s FROM people", [-1e300, 5e300], (-(2**19), 2**19)) == 2 * 2**20


def halves_go_where_engines_like(engine: EngineUnderTest) -> None:
    expected = DIFFERENCES["ROUND of 2.5 and -2.5"].of(engine.dialect.name)
    assert engine.run_alone("SELECT ROUND(CAST('2.5' AS {double})), ROUND(CAST('-2.5' AS {double}))") == expected
    query = "SELECT SUM(ROUND(x)) AS s FROM people"
    assert [engine.run_query(query, [x], (-8, 8)) for x in (2.5, -2.5, 3.5, -3.5, 2.4)] == [3, -2, 4, -3, 2]


def dates_do_not_end_where_pythons_do(engine: EngineUnderTest) -> None:
    expected = DIFFERENCES["the year of infinity"].of(engine.dialect.name)
    assert engine.run_alone("SELECT EXTRACT(YEAR FROM DATE 'infinity')") == expected
    beyond = {
        "duckdb": "DATE_TRUNC('week', DATE '5877642-06-25 (BC)')",
        "postgres": "DATE_TRUNC('week', CAST(DATE '5874897-12-31' AS TIMESTAMP))",
        "spark": "TRUNC(DATE '+5881580-07-11', 'week')",
    }[engine.dialect.name]
    answers = engine.run_alone(f"SELECT CAST({beyond} AS {{text}})") != "raises"
    assert answers == (DIFFERENCES["a date beyond DATE_TRUNC"].of(engine.dialect.name) == "answers")


def backslashes_escape(engine: EngineUnderTest) -> None:
    found = engine.run_alone(r"SELECT 'a%' LIKE 'a\%'")
    assert found == DIFFERENCES["a backslash in LIKE"].of(engine.dialect.name)
    assert is_refused("SELECT COUNT(*) AS n FROM people WHERE t LIKE 'a\\%'")
    assert not is_refused("SELECT COUNT(*) AS n FROM people WHERE t LIKE 'a%'")


PITFALLS: list[Callable[[EngineUnderTest], None]] = [
    nan_is_above_everything, null_is_passed_over, casts_round_as_they_like, halves_are_lost_above_2_to_the_51,
    division_of_doubles_is_off_by_one, texts_of_doubles_differ, a_cast_reveals_the_value, overflow_raises, zero_divides,
    only_case_guards, the_least_integer_has_no_opposite, halves_go_where_engines_like, dates_do_not_end_where_pythons_do,
    backslashes_escape,
]  # fmt: skip
