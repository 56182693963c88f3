"""The long rounds of tests/ledger/test_crashes.py."""

import pytest

from tests.support.crash_campaign import run_campaign


@pytest.mark.nightly
def test_a_client_of_postgres_killed_at_every_message_to_the_server(database: str) -> None:
    found = run_campaign("kills", "1", "4", "2", database)
    assert found["problems"] == []
    assert found["hit"] == found["points"] >= 50


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(10, 34))
def test_killed_at_every_boundary_of_many_scenarios(seed: int) -> None:
    """24 scenarios of at least 209 boundaries: more than 5,000 kills."""
    found = run_campaign("kills", "1", str(seed), "9")
    assert found["problems"] == []
    assert found["hit"] == found["points"] >= 209
