"""Replay: on random tables, policies and questions no noise is moved further than its loss says; and a wrong twin is.

PostgreSQL and Spark are replayed where they run, in tests/engines.
"""

from dataclasses import replace
from typing import Any

import duckdb
import pytest

from discreet.engines.duckdb.engine import DuckDB
from discreet.query.answer import ExactTotals
from tests.auditor.replaying import AGGREGATES, everything_replayed, replayed
from tests.engines.suites import Opening
from tests.query.worlds import World, stored


class Doubling(DuckDB):
    """Wrong twin: every row is counted twice."""

    def run(self, bounded: Any) -> ExactTotals:
        right = super().run(bounded)
        return replace(
            right,
            totals=[(tuple(2 * n for n in row), keys) for row, keys in right.totals],
            cell_counts={c: [(2 * n, cell, keys) for n, cell, keys in rows] for c, rows in right.cell_counts.items()},
        )


def opening(engine: type[DuckDB] = DuckDB) -> Opening:
    connection = duckdb.connect()

    def opened(place: World) -> DuckDB:
        stored(place, connection)
        return engine(connection, "people")

    return opened


def test_every_noise_is_given_what_its_loss_covers() -> None:
    found = replayed(opening(), range(41_000, 41_030), 3)
    assert found.breaches == []
    assert found.questions > 60
    assert found.asked >= AGGREGATES


def test_in_one_question_too() -> None:
    found = everything_replayed(opening(), range(41_100, 41_120))
    assert found.breaches == []
    assert found.questions == 10, "the others have nobody to remove"
    assert found.asked == AGGREGATES


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(42_000, 42_400, 50))
def test_every_noise_is_given_what_its_loss_covers_at_length(start: int) -> None:
    assert replayed(opening(), range(start, start + 50), 8).breaches == []


def test_replay_can_fail() -> None:
    found = everything_replayed(opening(Doubling), range(41_000, 41_010))
    assert any("linf" in breach for breach in found.breaches)
