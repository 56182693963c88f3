"""A statement is compiled once for each query, and what distinguishes two statements distinguishes the queries of both."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import duckdb
import pytest

from discreet.engines import base
from discreet.engines.base import SqlEngine
from discreet.query.contribution import BOUNDING, FIRST_BOUNDING, BoundedQuery
from discreet.session.connect import connect
from discreet.session.session import Session

QUERIES = [
    "SELECT dept, COUNT(*) AS n FROM people GROUP BY dept",
    "SELECT dept, COUNT(*) AS n FROM people WHERE pay > 3 GROUP BY dept",
    "SELECT old, SUM(pay) AS s FROM people GROUP BY old",
    "SELECT kind, SUM(pay) AS s FROM people GROUP BY kind",
    "SELECT dept, COUNT(*) AS n FROM people WHERE old = TRUE GROUP BY dept",
    "SELECT dept, COUNT(*) AS n FROM people WHERE kind = 1 GROUP BY dept",
    "SELECT dept, MEDIAN(pay) AS m, COUNT(*) AS n FROM people GROUP BY dept",
]
VARIANTS: list[dict[str, Any]] = [
    {}, {"max_groups": 1}, {"max_rows": 2}, {"bounds": {"pay": (0, 9)}}, {"keys": {"dept": ["a", "b"]}},
    {"keys": {"dept": ["a", "b", "c"], "kind": [0, 1, 2]}},
]  # fmt: skip


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    made = duckdb.connect()
    rows = "SELECT i // 4 AS id, chr((97 + i % 4)::INTEGER) AS dept, i % 9 AS pay, i % 3 AS kind, i % 2 = 0 AS old"
    made.execute(f"CREATE TABLE people AS {rows} FROM range(400) t(i)")
    return made


def open_session(connection: duckdb.DuckDBPyConnection, **options: Any) -> Session:
    declared: dict[str, Any] = {
        "keys": {"dept": ["a", "b", "c"], "kind": [0, 1], "old": [True, False]}, "bounds": {"pay": (0, 8)}, "max_groups": 2,
    }  # fmt: skip
    return connect(connection, table="people", unit="id", epsilon=100, **{**declared, **options})


def list_bounded(connection: duckdb.DuckDBPyConnection) -> list[BoundedQuery]:
    """Queries that differ in one respect each, in both versions of contribution bounding."""
    found = []
    for options, query, bounding in product(VARIANTS, QUERIES, (FIRST_BOUNDING, BOUNDING)):
        keys = options.get("keys")
        declared = {**options, **({"keys": {"kind": [0, 1], "old": [True, False], **keys}} if keys else {})}
        found.append(replace(open_session(connection, **declared).calibrate(query, epsilon=1).bounded, bounding=bounding))
    salted = [replace(each, table=replace(each.table, salt="another")) for each in found]
    return [*found, *salted]


def compile_fresh(engine: SqlEngine, bounded: BoundedQuery) -> tuple[str, ...]:
    engine._compiled = {}
    return engine.compile_all(bounded)


def test_a_statement_that_is_remembered_is_the_one_that_is_compiled(connection: duckdb.DuckDBPyConnection) -> None:
    bounded, engine, plain = list_bounded(connection), open_session(connection).engine, open_session(connection).engine
    assert isinstance(engine, SqlEngine)
    assert isinstance(plain, SqlEngine)
    for _ in range(2):
        assert [engine.compile_all(each) for each in bounded] == [compile_fresh(plain, each) for each in bounded]
    assert len(engine._compiled) == base.MAX_COMPILED


def test_a_query_is_compiled_once(connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    session, compiled, compile_anew = open_session(connection), [], SqlEngine._compile_anew

    def compile_and_count(self: SqlEngine, bounded: BoundedQuery, counts: Any) -> str:
        compiled.append(bounded)
        return compile_anew(self, bounded, counts)

    monkeypatch.setattr(SqlEngine, "_compile_anew", compile_and_count)
    for _ in range(3):
        session.ask(QUERIES[0], epsilon=1, fresh=True)
    assert len(compiled) == 1


MUTANTS: list[Callable[[BoundedQuery, Any], tuple[str, ...]]] = [
    lambda bounded, counts: (repr(bounded.query), bounded.table.salt, repr(counts)),
    lambda bounded, counts: (repr(bounded), repr(counts)),
    lambda bounded, _: (repr(bounded), bounded.table.salt),
]
"""Without what the table declares; without the salt; without the histogram."""


@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutants_return_the_statement_of_another_query(
    connection: duckdb.DuckDBPyConnection, mutant: Callable[[BoundedQuery, Any], tuple[str, ...]]
) -> None:
    engine = open_session(connection).engine
    assert isinstance(engine, SqlEngine)
    known: dict[tuple[str, ...], str] = {}
    wrong = 0
    for bounded in list_bounded(connection):
        for counts in (None, *bounded.cell_counts):
            if counts is not None or bounded.totals:
                statement = engine._compile_anew(bounded, counts)
                wrong += known.setdefault(mutant(bounded, counts), statement) != statement
    assert wrong > 0
