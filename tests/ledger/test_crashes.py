"""kill -9 and failing disks, at the boundaries of a real child: no free answer, no lost debit, no double debit.

tests/campaigns/ledger holds the long rounds.
"""

import pytest

from tests.support.crash_campaign import run_campaign
from tests.support.jsonl_store import SCHEME
from tests.support.rounds import at_night


@pytest.mark.parametrize(("every", "points"), [(3, 67), at_night(1, 200)])
def test_killed_at_the_boundaries(every: int, points: int) -> None:
    found = run_campaign("kills", str(every), "1", "8")
    assert found["problems"] == []
    assert found["hit"] == found["points"] >= points


def test_a_store_without_sql_killed_at_every_boundary() -> None:
    found = run_campaign("kills", "1", "1", "4", SCHEME)
    assert found["problems"] == []
    assert found["hit"] == found["points"] >= 20


def test_a_client_of_postgres_killed_between_its_messages_to_the_server(database: str) -> None:
    found = run_campaign("kills", "9", "4", "1", database)
    assert found["problems"] == []
    assert found["hit"] == found["points"] >= 5


def test_the_campaign_notices_a_mutant_that_shows_before_it_records() -> None:
    found = run_campaign("kills", "1", "2", "1", "hasty")
    assert any("shown and not recorded" in problem for problem in found["problems"])
    assert any("another answer" in problem for problem in found["problems"])


def test_a_failing_disk_fails_closed_with_a_clear_message() -> None:
    found = run_campaign("faults", "3", "3", "2")
    assert found["problems"] == []
    assert found["hit"] >= 30
    messages = " ".join(found["messages"])
    assert "the disk is full, so nothing is shown. Make room, then ask again with the same id" in messages
    assert "the disk failed" in messages
