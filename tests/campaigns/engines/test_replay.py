"""Deterministic replay of many random queries on PostgreSQL. Spark is replayed in `test_conformance`, beside its one JVM."""

import pytest

from tests.support.postgres_server import Server
from tests.support.replaying import replay_random_queries


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(44_000, 44_200, 50))
def test_neighbours_move_values_by_no_more_than_the_event_says(start: int, postgres: Server) -> None:
    assert replay_random_queries(postgres.open_world, range(start, start + 50), 8).violations == []
