"""Deterministic replay on PostgreSQL: what a noise is given moves no further than its loss says. (Spark: `test_spark`.)"""

import pytest

from tests.engines.servers import Server
from tests.support.replaying import AGGREGATES, replay_every_aggregate, replay_random_queries


def test_every_noise_is_given_what_its_loss_covers(postgres: Server) -> None:
    found = replay_every_aggregate(postgres.opened, range(43_000, 43_010))
    assert found.violations == []
    assert found.measurements > 4
    assert found.aggregates == AGGREGATES
    assert replay_random_queries(postgres.opened, range(43_000, 43_010), 3).violations == []


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(44_000, 44_200, 50))
def test_every_noise_is_given_what_its_loss_covers_at_length(start: int, postgres: Server) -> None:
    assert replay_random_queries(postgres.opened, range(start, start + 50), 8).violations == []
