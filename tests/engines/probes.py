"""Where engines trip, each shown twice: what the engine does by itself, and what discreet makes of it."""

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
from discreet.sql.dialects import Dialect
from discreet.sql.expressions import bigint_literal
from discreet.units import Neighbours
from tests.engines.markers import MARKERS
from tests.support.oracle import reference
from tests.support.random_tables import World, exactly

WRITTEN = {"duckdb": ("DOUBLE", "VARCHAR"), "postgres": ("DOUBLE PRECISION", "TEXT"), "spark": ("DOUBLE", "STRING")}
TEXTS = "SELECT 1 AS id, 'secret' AS s, FALSE AS ok UNION ALL SELECT 2, '7', TRUE"
"""One text that is no number, and a column that says so."""
TYPES = {"uid": "BIGINT", "x": "DOUBLE", "n": "BIGINT"}


@dataclass(frozen=True)
class Tried:
    """An engine by itself, and as discreet has it."""

    dialect: Dialect
    run: Callable[[str], list[Any]]  # a statement as it is
    opened: Callable[[World], Engine]

    def by_itself(self, statement: str) -> Any:
        """Its one row, or that it raises."""
        double, text = WRITTEN[self.dialect.name]
        try:
            return tuple(self.run(statement.format(double=double, text=text, texts=f"({TEXTS}) texts"))[0])
        except Exception:
            return "raises"

    def words(self, statement: str) -> str:
        """What it says when it raises."""
        with pytest.raises(Exception) as failure:  # noqa: PT011
            self.run(statement.format(texts=f"({TEXTS}) texts"))
        return str(failure.value)

    def ours(self, sql: str, xs: list[Any], bounds: tuple[int, int]) -> Any:
        """A question about these numbers, each of another person; the same as in plain Python."""
        place = World(_table(bounds), tuple({"uid": i, "x": x, "n": i} for i, x in enumerate(xs)), TYPES)
        question = _question(sql, place.table)
        found = exactly(self.opened(place), question)
        assert found == reference(question, place.rows)
        [total] = found.values()
        return total.get((), 0)


def _table(bounds: tuple[int, int]) -> Table:
    columns = {
        "uid": Column(Kind.INTEGER),
        "x": Column(Kind.REAL).with_bounds(*bounds),
        "n": Column(Kind.INTEGER).with_bounds(0, 9),
    }
    return Table("people", "uid", columns, unique=True)


def _question(sql: str, table: Table) -> BoundedQuery:
    return bound_contributions(parse_sql(sql, table), table, Neighbours.ADD_REMOVE)


def refused(sql: str) -> bool:
    try:
        _question(sql, _table((0, 1)))
    except QueryRefused:
        return True
    return False


SUM, COUNT = "SELECT SUM(x) AS s FROM people", "SELECT COUNT(x) AS n FROM people"


def nan_is_above_everything(engine: Tried) -> None:
    assert engine.by_itself("SELECT LEAST(GREATEST(CAST('NaN' AS {double}), 0), 200)") == (200,)
    assert engine.ours(SUM, [nan, 3.0], (0, 2**20)) == 3
    assert engine.ours(COUNT, [nan, 3.0], (0, 2**20)) == 1


def null_is_passed_over(engine: Tried) -> None:
    assert engine.by_itself("SELECT LEAST(60, NULL)") == (60,)
    assert engine.ours(SUM, [None, 3.0], (0, 2**20)) == 3
    assert engine.ours(COUNT, [None, 3.0], (0, 2**20)) == 1


def casts_round_as_they_like(engine: Tried) -> None:
    cast = ", ".join(f"CAST(CAST('{x}' AS {{double}}) AS BIGINT)" for x in (2.5, 3.5, 2.7))
    assert engine.by_itself(f"SELECT {cast}") == MARKERS["a double as BIGINT"].of(engine.dialect.name)
    assert [engine.ours(SUM, [x], (-(2**20), 2**20)) for x in (2.5, 3.5, 2.7, -2.5, -2.7)] == [3, 4, 3, -2, -3]


def halves_are_lost_above_2_to_the_51(engine: Tried) -> None:
    odd, half = f"CAST('{2**52 + 1}' AS {{double}})", "CAST('0.5' AS {double})"
    assert engine.by_itself(f"SELECT CAST(FLOOR({odd} + {half}) AS BIGINT)") == (2**52 + 2,)
    assert engine.ours(SUM, [float(2**52 + 1)], (0, 2**53 - 1)) == 2**20  # a grid of twenty bits, whatever the bounds


def division_of_doubles_is_off_by_one(engine: Tried) -> None:
    large = 27021597764222980
    assert engine.by_itself(f"SELECT CAST(FLOOR(CAST({large} AS {{double}}) / 3) AS BIGINT)") == (large // 3 + 1,)
    for a, b, quotient in ((large, 3, large // 3), (-7, 2, -3), (7, 2, 3)):
        written = exp.select(engine.dialect.divide(bigint_literal(a), bigint_literal(b))).sql(dialect=engine.dialect.name)
        assert engine.by_itself(written) == (quotient,)


def texts_of_doubles_differ(engine: Tried) -> None:
    cast = ", ".join(f"CAST(CAST('{x}' AS {{double}}) AS {{text}})" for x in ("1e20", "1", "0.00001"))
    assert engine.by_itself(f"SELECT {cast}") == MARKERS["the text of a double"].of(engine.dialect.name)
    assert refused("SELECT x, COUNT(*) AS n FROM people GROUP BY x")
    same = {
        "'ÅÄö日本😀'": "ÅÄö日本😀", "CAST(DATE '0001-01-01' AS {text})": "0001-01-01", "CAST(TRUE AS {text})": "true",
        "CAST(CAST(-9223372036854775807 AS BIGINT) AS {text})": "-9223372036854775807",
    }  # fmt: skip
    hashed = engine.by_itself(f"SELECT {', '.join(f'md5({text})' for text in same)}")
    assert hashed == tuple(md5(text.encode()).hexdigest() for text in same.values())


def a_cast_tells_the_value(engine: Tried) -> None:
    assert "secret" in engine.words("SELECT CAST(s AS INTEGER) FROM {texts}")
    assert refused("SELECT SUM(CAST(x AS INTEGER)) AS s FROM people")


def overflow_raises(engine: Tried) -> None:
    assert engine.by_itself("SELECT MAX(9223372036854775807 + id) FROM {texts}") == "raises"
    largest = "SELECT SUM(x) FROM (SELECT CAST(9223372036854775807 AS BIGINT) AS x FROM {texts}) numbers"
    expected = MARKERS["a sum of BIGINT by itself"].of(engine.dialect.name)
    assert engine.by_itself(largest) in (expected, (expected,))
    assert refused(f"SELECT SUM(x * {10**15} * {10**15}) AS s FROM people")
    assert refused("SELECT SUM(n + 9223372036854775807) AS s FROM people")


def zero_divides(engine: Tried) -> None:
    found = engine.by_itself("SELECT MAX(1 / (id - 1)) FROM {texts}")
    assert (found == "raises") == (MARKERS["division by zero"].of(engine.dialect.name) == "raises")
    assert refused("SELECT SUM(n // 0) AS s FROM people")
    assert refused("SELECT SUM(n / n) AS s FROM people")


def only_case_guards(engine: Tried) -> None:
    assert engine.by_itself("SELECT SUM(CASE WHEN ok THEN CAST(s AS INTEGER) ELSE 0 END) FROM {texts}") == (7,)
    assert engine.by_itself("SELECT CASE WHEN MIN(id) > 1 THEN SUM(CAST(s AS INTEGER)) END FROM {texts}") == "raises"
    weak = {
        "FILTER as a guard": "SELECT SUM(CAST(s AS INTEGER)) FILTER (WHERE ok) FROM {texts}",
        "a guard in a join": "SELECT COUNT(*) FROM {texts} LEFT JOIN (SELECT 7 AS k UNION ALL SELECT 8) other "
        "ON ok AND CAST(s AS INTEGER) = k",
    }
    for name, statement in weak.items():
        assert (engine.by_itself(statement) == "raises") == (MARKERS[name].of(engine.dialect.name) == "raises"), name


PROBES: list[Callable[[Tried], None]] = [
    nan_is_above_everything, null_is_passed_over, casts_round_as_they_like, halves_are_lost_above_2_to_the_51,
    division_of_doubles_is_off_by_one, texts_of_doubles_differ, a_cast_tells_the_value, overflow_raises, zero_divides,
    only_case_guards,
]  # fmt: skip
