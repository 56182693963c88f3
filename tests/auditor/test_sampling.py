"""Samplers: whatever a function does is an output, in this process, in workers and in new processes; nothing outlasts its
time, and noise that calls share is found."""

import json
import subprocess
import sys
import time
from math import inf
from pathlib import Path
from random import Random
from typing import Any

import pytest

from discreet import Laplace, audit
from discreet.auditor.evidence import REPETITION
from discreet.auditor.sampling import RestartSampler, WorkerPool, get_import_path
from discreet.errors import BadParameter
from tests.support.black_boxes import exits, hangs, ignores_alarm, prints_and_raises, returns_unpicklable, seeded_at_start

ROOT = Path(__file__).parent.parent.parent
CLAIM = (0.5, 0.01)
PAIR = ([1], [1, 1])
CONFIDENCE = 1 - 1e-7
NOISE = Laplace(1)


# -- calls in this process --------------------------------------------------------------------------------------------------


def noisy_count(xs: Any) -> int:
    print("a secret")
    return int(NOISE.release(len(xs)))


def raises(xs: Any) -> int:
    if "x" in xs:
        raise SystemExit(3)
    return noisy_count(xs)


def hangs_on_two(xs: Any) -> int:
    while len(xs) > 1:
        time.sleep(0.001)
    return 1


def changes_type(xs: Any) -> Any:
    return [noisy_count(xs)] if len(xs) > 1 else noisy_count(xs)


def clears_its_input(xs: Any) -> Any:
    xs.clear()  # an input that is changed must not change the next call
    return noisy_count([1])


def test_what_a_function_prints_is_discarded(capsys: pytest.CaptureFixture[str]) -> None:
    found = audit(noisy_count, 1, samples=4_000, confidence=CONFIDENCE)
    assert not found.violation
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("mutant", "pair", "word"), [(raises, ([1], [1, "x"]), "SystemExit"), (changes_type, ([1], [1, 1]), "list of 1")]
)
def test_exceptions_and_types_are_outputs(mutant: Any, pair: Any, word: str) -> None:
    found = audit(mutant, 1, [pair], samples=4_000, confidence=CONFIDENCE)
    assert found.violation
    assert word in found.event or "the kind of output is int" in found.event


def test_a_time_out_is_an_output() -> None:
    found = audit(hangs_on_two, 1, [PAIR], seconds=8, limit=0.01)
    assert found.violation
    assert found.event.startswith("the kind of output is ")


def test_inputs_are_copied() -> None:
    assert not audit(clears_its_input, 1, [PAIR], samples=4_000, confidence=CONFIDENCE).violation


# -- worker processes and new processes -------------------------------------------------------------------------------------


def test_workers_return_the_columns_of_one_process() -> None:
    with WorkerPool(noisy_count, 2, 1.0) as pool:
        outputs = pool.draw([1, 1], 101)
        assert len(outputs) == 101
        assert tuple(outputs.columns) == ("the output",)


def test_a_seed_set_at_the_start_is_found_by_restarting() -> None:
    found = audit(seeded_at_start, CLAIM, [PAIR], samples=1_000, restart=True, workers=2, confidence=CONFIDENCE)
    assert found.violation
    assert found.event.startswith("the exact output is")


def test_a_seed_set_at_the_start_is_not_found_in_one_process() -> None:
    """Within one process its noise is correct."""
    assert not audit(seeded_at_start, CLAIM, [PAIR], samples=20_000, confidence=CONFIDENCE).violation


def test_workers_that_draw_the_same_noise_are_refused() -> None:
    with pytest.raises(BadParameter, match="the same noise"):
        audit(seeded_at_start, CLAIM, [PAIR], samples=1_000, workers=2)


class ReusesNoise:
    """The mutant: one draw serves seven calls."""

    def __init__(self) -> None:
        self.calls, self.noise, self.random = 0, 0, Random(11)

    def __call__(self, xs: list[int]) -> int:
        if self.calls % 7 == 0:
            self.noise = self.random.randint(-1000, 1000)
        self.calls += 1
        return len(xs) + self.noise


def test_noise_that_serves_several_calls_is_found_by_repetition() -> None:
    """Each output alone is correct; only two consecutive ones show it."""
    found = audit(ReusesNoise(), CLAIM, [PAIR], samples=20_000, confidence=CONFIDENCE)
    assert found.violation
    assert found.event == REPETITION


def test_functions_that_end_their_process_or_ignore_the_alarm() -> None:
    for function, reason in ((exits, "ends its process"), (ignores_alarm, "ignores the time limit")):
        with WorkerPool(function, 1, 0.01) as pool, pytest.raises(BadParameter, match=reason):
            pool.draw([1], 3, 0.0)
    for function, kind in (
        (exits, "ends its process"),
        (ignores_alarm, "no output within 0.1 s"),
        (prints_and_raises, "raises KeyError"),
    ):
        outputs = RestartSampler(function, 2, 0.1).draw([1], 2, inf)
        assert set(outputs.labels.values()) == {kind}


def test_an_output_that_cannot_be_pickled_is_an_output() -> None:
    outputs = RestartSampler(returns_unpicklable, 1, 5.0).draw([1], 2)
    assert set(outputs.labels.values()) == {"a function that cannot be pickled"}


def test_only_functions_with_an_import_path_can_be_sent() -> None:
    assert get_import_path(hangs) == "tests.support.black_boxes:hangs"
    with pytest.raises(BadParameter, match="another process"):
        audit(lambda xs: 1, 1, workers=2)


# -- the command ------------------------------------------------------------------------------------------------------------


def run_audit(*arguments: str) -> "subprocess.CompletedProcess[str]":
    program = [sys.executable, "-c", "from discreet.cli import main; main()", "audit", *arguments]
    return subprocess.run(program, capture_output=True, text=True, cwd=ROOT, timeout=150, check=False)


def test_the_command_ends_although_the_function_hangs() -> None:
    """Without limits each of the 24 first inputs would take six seconds and more; the limit allows for a busy machine."""
    out = run_audit("tests.support.black_boxes:hangs", "--epsilon", "1", "--seconds", "4", "--json")
    assert out.returncode == 2  # every call was too late, so nothing was tested
    assert json.loads(out.stdout)["violation"] is False


def test_the_command_ends_although_the_function_ignores_the_alarm() -> None:
    out = run_audit("tests.support.black_boxes:ignores_alarm", "--epsilon", "1", "--seconds", "4")
    assert out.returncode == 2
    assert "ignores the time limit" in out.stderr
