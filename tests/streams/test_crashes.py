"""kill -9 at every boundary of a ticking process, and processes that tick the same step: one noise is ever shown."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from discreet.ledger import open_ledger
from discreet.ledger.check import check_ledger
from tests.streams.test_stream import open_one, open_session, write

ROOT = Path(__file__).parent.parent.parent

TICK = """
import sys
from discreet.streams import load_stream
folder, barrier = sys.argv[1:]
from tests.streams.test_stream import open_session
from pathlib import Path
session = open_session(Path(folder))
stream = load_stream(session, "visits")
open(f"{folder}/ready-{barrier}", "w").close()
import os, time
while sum(name.startswith("ready-") for name in os.listdir(folder)) < 3:
    time.sleep(0.005)
print([stream.tick(step).value for step in (1, 2, 3)])
"""


def run_kills(*words: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.support.stream_crashes", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("more", [(), ("merging",)], ids=["lists", "merging"])
def test_killed_at_many_boundaries_a_stream_shows_one_noise_per_step(more: tuple[str, ...]) -> None:
    found = run_kills("18", *more)
    assert found["problems"] == []
    assert found["hit"] == found["points"] >= 8


@pytest.mark.nightly
@pytest.mark.parametrize("more", [(), ("merging",)], ids=["lists", "merging"])
def test_killed_at_every_boundary_a_stream_shows_one_noise_per_step(more: tuple[str, ...]) -> None:
    found = run_kills("1", *more)
    assert found["problems"] == []
    assert found["hit"] == found["points"] >= 150


def test_the_kills_notice_a_mutant_that_draws_again_and_shows_too_soon() -> None:
    found = run_kills("9", "hasty")
    assert any("shown twice, with other noise" in problem for problem in found["problems"])


def test_processes_that_tick_the_same_steps_show_the_same(tmp_path: Path) -> None:
    write(tmp_path / "visits.csv", [(f"p{i}", i % 3, "north") for i in range(30)])
    session = open_session(tmp_path)
    stream = open_one(session)
    running = [
        subprocess.Popen(
            [sys.executable, "-c", TICK, str(tmp_path), str(i)], stdout=subprocess.PIPE, text=True, env=os.environ
        )
        for i in range(3)
    ]
    shown = [json.loads(each.communicate(timeout=120)[0]) for each in running]
    assert all(each.returncode == 0 for each in running)
    assert shown == [[stream.tick(step).value for step in (1, 2, 3)]] * 3
    assert stream.last_step == 3
    report = check_ledger(open_ledger(tmp_path / "hr.ledger"))
    assert report.problem is None
    assert not report.unanswered
