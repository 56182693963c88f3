"""Replay of random queries on many random tables."""

import pytest

from tests.auditor.test_replay import make_opening
from tests.support.replaying import replay_random_queries


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(42_000, 42_400, 50))
def test_every_noise_is_given_what_its_event_covers(start: int) -> None:
    assert replay_random_queries(make_opening(), range(start, start + 50), 8).violations == []
