"""Deterministic replay on PostgreSQL: the values that noise is added to move by no more than its event says."""

from tests.support.postgres_server import Server
from tests.support.replaying import AGGREGATES, replay_every_aggregate, replay_random_queries


def test_neighbours_move_values_by_no_more_than_the_event_says(postgres: Server) -> None:
    found = replay_every_aggregate(postgres.open_world, range(43_000, 43_010))
    assert found.violations == []
    assert found.measurements > 4
    assert found.aggregates == AGGREGATES
    assert replay_random_queries(postgres.open_world, range(43_000, 43_010), 3).violations == []
