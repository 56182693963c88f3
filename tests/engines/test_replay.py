"""Deterministic replay on PostgreSQL: what a noise is given moves no further than its loss says. (Spark: `test_spark`.)"""

import pytest

from tests.auditor.replaying import AGGREGATES, everything_replayed, replayed
from tests.engines.servers import Server


def test_every_noise_is_given_what_its_loss_covers(postgres: Server) -> None:
    found = everything_replayed(postgres.opened, range(43_000, 43_010))
    assert found.breaches == []
    assert found.questions > 4
    assert found.asked == AGGREGATES
    assert replayed(postgres.opened, range(43_000, 43_010), 3).breaches == []


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(44_000, 44_200, 50))
def test_every_noise_is_given_what_its_loss_covers_at_length(start: int, postgres: Server) -> None:
    assert replayed(postgres.opened, range(start, start + 50), 8).breaches == []
