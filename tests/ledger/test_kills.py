"""kill -9 and failing disks, at every boundary of a real child: no free answer, no lost debit, no double one."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent


def campaign(*words: str) -> dict[str, Any]:
    """In a process of its own, which has one thread and may fork."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.crash_harness", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_killed_at_every_boundary() -> None:
    found = campaign("kills", "1", "1", "8")
    assert found["problems"] == []
    assert found["hit"] == found["points"] >= 200


def test_a_client_of_postgres_killed_between_its_words_to_the_server(database: str) -> None:
    found = campaign("kills", "9", "4", "1", database)
    assert found["problems"] == []
    assert found["hit"] == found["points"] >= 5


@pytest.mark.nightly
def test_a_client_of_postgres_killed_at_every_word_to_the_server(database: str) -> None:
    found = campaign("kills", "1", "4", "2", database)
    assert found["problems"] == []
    assert found["hit"] == found["points"] >= 50


def test_the_campaign_notices_a_twin_that_shows_before_it_records() -> None:
    found = campaign("kills", "1", "2", "1", "hasty")
    assert any("shown and not recorded" in problem for problem in found["problems"])
    assert any("another answer" in problem for problem in found["problems"])


def test_a_failing_disk_fails_closed_with_a_clear_message() -> None:
    found = campaign("faults", "3", "3", "2")
    assert found["problems"] == []
    assert found["hit"] >= 30
    said = " ".join(found["said"])
    assert "the disk is full, so nothing is shown. Make room, then ask again with the same id" in said
    assert "the disk failed" in said


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(10, 34))
def test_killed_at_every_boundary_of_many_scenes(seed: int) -> None:
    """24 scenes of at least 209 boundaries: more than 5,000 kills."""
    found = campaign("kills", "1", str(seed), "9")
    assert found["problems"] == []
    assert found["hit"] == found["points"] >= 209
