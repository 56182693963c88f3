"""Replay: on random tables, policies and queries no noise is moved further than its event says; with a mutant one is.

PostgreSQL and Spark are replayed in tests/engines.
"""

from dataclasses import replace
from typing import Any

import duckdb

from discreet.engines.duckdb.engine import DuckDB
from discreet.query.answer import ExactTotals
from tests.support.mangled_queries import Opening
from tests.support.random_tables import World, stored
from tests.support.replaying import AGGREGATES, replay_every_aggregate, replay_random_queries


class CountsTwice(DuckDB):
    """The mutant: every row is counted twice."""

    def run(self, bounded: Any) -> ExactTotals:
        correct = super().run(bounded)
        return replace(
            correct,
            totals=[(tuple(2 * n for n in row), keys) for row, keys in correct.totals],
            cell_counts={c: [(2 * n, cell, keys) for n, cell, keys in rows] for c, rows in correct.cell_counts.items()},
        )


def make_opening(engine: type[DuckDB] = DuckDB) -> Opening:
    connection = duckdb.connect()

    def open_engine(table: World) -> DuckDB:
        stored(table, connection)
        return engine(connection, "people")

    return open_engine


def test_every_noise_is_given_what_its_event_covers() -> None:
    found = replay_random_queries(make_opening(), range(41_000, 41_030), 3)
    assert found.violations == []
    assert found.measurements > 60
    assert found.aggregates >= AGGREGATES


def test_every_noise_of_one_query_is_given_what_its_event_covers() -> None:
    found = replay_every_aggregate(make_opening(), range(41_100, 41_120))
    assert found.violations == []
    assert found.measurements == 10, "the other tables have no unit to remove"
    assert found.aggregates == AGGREGATES


def test_replay_finds_a_mutant() -> None:
    found = replay_every_aggregate(make_opening(CountsTwice), range(41_000, 41_010))
    assert any("linf" in violation for violation in found.violations)
