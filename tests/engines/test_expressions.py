"""Functions of values on DuckDB and PostgreSQL. Spark's are beside its one JVM, in `spark/test_engine.py`."""

from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from math import floor
from typing import Any

import duckdb
import pytest

from discreet.engines.base import Engine
from discreet.engines.duckdb.engine import DuckDB
from discreet.engines.postgres import Postgres
from discreet.query import ast
from discreet.query.grid import grid_range_of
from discreet.sql.dialects import clip, key_literal, source_column
from discreet.sql.expressions import Lowering, exp
from tests.support.expression_laws import EXTREMES, ROWS, find_wrong_extremes, find_wrong_keys, find_wrong_values
from tests.support.oracle import Oracle
from tests.support.postgres_server import Server
from tests.support.random_tables import World, stored

Opening = Callable[[World], Engine]


@pytest.fixture(params=["duckdb", "postgres"])
def open_world(request: pytest.FixtureRequest) -> Opening:
    """Each engine."""
    if request.param == "postgres":
        return request.getfixturevalue("postgres").open_world  # type: ignore[no-any-return]
    connection = duckdb.connect()
    return lambda table: stored(table, connection)


def open_extremes(name: str, postgres: Server) -> Engine:
    """Open the dates that Python cannot hold."""
    rows = ", ".join(f"({uid}, '{day}', '{at}')" for uid, (day, at) in EXTREMES[name].items())
    statements = ["DROP TABLE IF EXISTS people", 'CREATE TABLE people (uid BIGINT, day DATE, "at" TIMESTAMP)']
    statements.append(f"INSERT INTO people VALUES {rows}")
    if name == "postgres":
        postgres.run(*statements)
        return Postgres.open(postgres.reader, "people")
    connection = duckdb.connect()
    for statement in statements:
        connection.execute(statement)
    return DuckDB(connection, "people")


def test_every_row_has_the_value_of_the_oracle(open_world: Opening) -> None:
    assert find_wrong_values(open_world) == []


def test_every_group_has_the_rows_of_the_oracle(open_world: Opening) -> None:
    assert find_wrong_keys(open_world) == []


@pytest.mark.parametrize("name", ["duckdb", "postgres"])
def test_dates_that_python_cannot_hold_are_clipped_and_infinite_ones_are_missing(name: str, postgres: Server) -> None:
    assert find_wrong_extremes(open_extremes(name, postgres)) == []


# -- mutants: each breaks one rule in the engine's statement or in the oracle, and is found --------------------------------


class NullIsGreatest(Oracle):
    """GREATEST and LEAST are NULL where one value is."""

    def present_values(self, values: list[Any]) -> list[Any]:
        return [] if None in values else values


class TiesToEven(Oracle):
    """ROUND as Python rounds."""

    def rounded(self, found: Fraction, rounding: ast.Rounding) -> Fraction:
        return Fraction(round(found)) if rounding is ast.Rounding.NEAREST else super().rounded(found, rounding)


class TiesAwayFromZero(Oracle):
    def rounded(self, found: Fraction, rounding: ast.Rounding) -> Fraction:
        if rounding is not ast.Rounding.NEAREST or found >= 0:
            return super().rounded(found, rounding)
        return -Fraction(floor(-found + Fraction(1, 2)))


class TruncatedQuotients(Oracle):
    """A quotient is rounded down to its grid."""

    def on_grid(self, found: Fraction, value: ast.Value) -> Fraction:
        step = grid_range_of(value, self.table).grid
        return step * floor(found / step)


class DotMatchesNoLineEnd(Oracle):
    def matches(self, text: str, pattern: str) -> bool:
        return super().matches(text, pattern) and ("\n" not in text or "%" not in pattern)


class BytesForCharacters(Oracle):
    """_ is one byte."""

    def matches(self, text: str, pattern: str) -> bool:
        return super().matches(text.encode().decode("latin-1"), pattern.encode().decode("latin-1"))


class IgnoresCase(Oracle):
    def matches(self, text: str, pattern: str) -> bool:
        return super().matches(text.lower(), pattern.lower())


class Unclipped(Oracle):
    """Dates are not clipped to their bounds."""

    def moment(self, row: Any, name: str) -> Any:
        return row[name]


MUTANTS = [
    (NullIsGreatest, "values"), (TiesToEven, "values"), (TiesAwayFromZero, "values"), (TruncatedQuotients, "values"),
    (DotMatchesNoLineEnd, "patterns"), (BytesForCharacters, "patterns"), (IgnoresCase, "patterns"),
    (Unclipped, "dates with bounds"),
]  # fmt: skip


@pytest.mark.parametrize(("mutant", "kind"), MUTANTS)
def test_a_wrong_rule_is_found(mutant: type[Oracle], kind: str) -> None:
    connection = duckdb.connect()
    assert find_wrong_values(lambda table: stored(table, connection), mutant, (kind,))


def _without_finite(self: Lowering, name: str) -> exp.Expr:
    return clip(source_column(name), *map(key_literal, self.table.columns[name].moment_bounds))


def _without_clipping(self: Lowering, name: str) -> exp.Expr:
    return exp.Case(ifs=[exp.If(this=self.dialect.is_finite(source_column(name)), true=source_column(name))])


@pytest.mark.parametrize("name", ["duckdb", "postgres"])
@pytest.mark.parametrize("mutant", [_without_finite, _without_clipping])
def test_unguarded_dates_are_found(name: str, mutant: Any, postgres: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Infinite dates would be clipped to the last day; a far one raises in some engines, and so reveals that it is there."""
    monkeypatch.setattr(Lowering, "_lower_moment", mutant)
    engine = open_extremes(name, postgres)
    wrong = ["raises"]
    with suppress(Exception):
        wrong = find_wrong_extremes(engine)
    assert wrong


def test_a_like_that_an_engine_escapes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant writes ILIKE."""
    lower = Lowering.lower_condition

    def insensitive(self: Lowering, condition: ast.Condition) -> exp.Expr:
        if isinstance(condition, ast.Like):
            return exp.Paren(
                this=exp.ILike(this=source_column(condition.value.column), expression=key_literal(condition.pattern))
            )
        return lower(self, condition)

    monkeypatch.setattr(Lowering, "lower_condition", insensitive)
    connection = duckdb.connect()
    assert find_wrong_values(lambda table: stored(table, connection), kinds=("patterns",))


def test_the_rows_have_every_kind_of_missing_value() -> None:
    assert all(None in [row[name] for row in ROWS] for name in ROWS[0] if name != "uid")
