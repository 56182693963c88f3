"""Boxes in other processes: a seed shared between calls shows, and nothing outlasts its time."""

import json
import subprocess
import sys
from math import inf
from pathlib import Path
from random import Random

import pytest

from discreet import audit
from discreet.auditor.evidence import REPETITION
from discreet.auditor.worker_pool import RestartSampler, WorkerPool, get_import_path
from discreet.errors import BadParameter
from tests.auditor.boxes import deaf, hangs, leaves, seeded_at_start, talks

ROOT = Path(__file__).parent.parent.parent
CLAIM = (0.5, 0.01)
PAIR = ([1], [1, 1])
SURE = 1 - 1e-7


def test_a_seed_set_at_the_start_shows_when_every_call_starts() -> None:
    found = audit(seeded_at_start, CLAIM, [PAIR], samples=1_000, restart=True, workers=2, confidence=SURE)
    assert found.violation
    assert found.event.startswith("the exact answer is")


def test_and_nowhere_else() -> None:
    """The wrong way to look: in one process its noise is as good as any."""
    assert not audit(seeded_at_start, CLAIM, [PAIR], samples=20_000, confidence=SURE).violation


def test_workers_that_draw_the_same_noise_are_told_apart_from_independent_ones() -> None:
    with pytest.raises(BadParameter, match="the same noise"):
        audit(seeded_at_start, CLAIM, [PAIR], samples=1_000, workers=2)


class Remembers:
    """One draw serves seven calls."""

    def __init__(self) -> None:
        self.calls, self.noise, self.random = 0, 0, Random(11)

    def __call__(self, xs: list[int]) -> int:
        if self.calls % 7 == 0:
            self.noise = self.random.randint(-1000, 1000)
        self.calls += 1
        return len(xs) + self.noise


def test_noise_that_serves_several_calls_is_caught_by_the_repetition() -> None:
    """Each answer alone is right; only two in a row tell."""
    found = audit(Remembers(), CLAIM, [PAIR], samples=20_000, confidence=SURE)
    assert found.violation
    assert found.event == REPETITION


def test_a_box_that_ends_its_process_or_hears_no_alarm() -> None:
    for box, reason in ((leaves, "ends its process"), (deaf, "hears no alarm")):
        with WorkerPool(box, 1, 0.01) as crowd, pytest.raises(BadParameter, match=reason):
            crowd.draw([1], 3, 0.0)
    for box, sort in ((leaves, "ends its process"), (deaf, "no answer within 0.1 s"), (talks, "raises KeyError")):
        answers = RestartSampler(box, 2, 0.1).draw([1], 2, inf)
        assert set(answers.labels.values()) == {sort}


def test_only_functions_with_a_name_can_be_sent() -> None:
    assert get_import_path(hangs) == "tests.auditor.boxes:hangs"
    with pytest.raises(BadParameter, match="no other process"):
        audit(lambda xs: 1, 1, workers=2)


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    program = [sys.executable, "-c", "from discreet.cli import main; main()", "audit", *arguments]
    return subprocess.run(program, capture_output=True, text=True, cwd=ROOT, timeout=150, check=False)


def test_the_program_ends_although_the_box_does_not() -> None:
    """Left to itself each of the 24 first inputs would take six seconds and more; the allowance is for a busy machine."""
    out = run("tests.auditor.boxes:hangs", "--epsilon", "1", "--seconds", "4", "--json")
    assert out.returncode == 0
    assert json.loads(out.stdout)["violation"] is False


def test_the_program_ends_although_the_box_is_deaf() -> None:
    out = run("tests.auditor.boxes:deaf", "--epsilon", "1", "--seconds", "4")
    assert out.returncode == 2
    assert "hears no alarm" in out.stderr
