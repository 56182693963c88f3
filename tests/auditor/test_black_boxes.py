"""Whatever a black box does is an answer: it raises, hangs, prints, returns NaN, changes its type."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from discreet import Laplace, assert_private, audit
from discreet.auditor import Pair
from discreet.auditor.worker_pool import WorkerPool
from discreet.errors import BadParameter

QUIET = Laplace(1)


def noisy_count(xs: Any) -> int:
    print("a secret")
    return int(QUIET.release(len(xs)))


def raises(xs: Any) -> int:
    if "x" in xs:
        raise SystemExit(3)
    return noisy_count(xs)


def hangs(xs: Any) -> int:
    while len(xs) > 1:
        time.sleep(0.001)
    return 1


def changes_type(xs: Any) -> Any:
    return [noisy_count(xs)] if len(xs) > 1 else noisy_count(xs)


def empties(xs: Any) -> Any:
    xs.clear()  # an input that is changed must not change the next call
    return noisy_count([1])


def test_what_a_box_prints_is_swallowed(capsys: pytest.CaptureFixture[str]) -> None:
    found = audit(noisy_count, 1, samples=4_000, confidence=1 - 1e-7)
    assert not found.violation
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("box", "pair", "word"), [(raises, ([1], [1, "x"]), "SystemExit"), (changes_type, ([1], [1, 1]), "list of 1")]
)
def test_exceptions_and_types_are_answers(box: Any, pair: Any, word: str) -> None:
    found = audit(box, 1, [pair], samples=4_000, confidence=1 - 1e-7)
    assert found.violation
    assert word in found.event or "the sort of answer is int" in found.event


def test_a_box_that_hangs_is_found_out() -> None:
    found = audit(hangs, 1, [([1], [1, 1])], seconds=8, limit=0.01)
    assert found.violation
    assert found.event.startswith("the sort of answer is ")


def test_inputs_are_copied() -> None:
    assert not audit(empties, 1, [([1], [1, 1])], samples=4_000, confidence=1 - 1e-7).violation


def test_workers_answer_as_one_process_does() -> None:
    with WorkerPool(noisy_count, 2, 1.0) as crowd:
        answers = crowd.draw([1, 1], 101)
        assert len(answers) == 101
        assert tuple(answers.columns) == ("the answer",)


def test_assert_private() -> None:
    assert_private(noisy_count, epsilon=1, samples=4_000)
    with pytest.raises(AssertionError, match="is false"):
        assert_private(len, epsilon=1, samples=4_000)


def test_a_replaced_record_may_cost_twice_as_much() -> None:
    two = Pair([0, 5], [1, 4], 2)  # ε = 1 for one unit: e² for two
    found = audit(lambda xs: QUIET.release(xs), 1, [two], samples=10_000, confidence=1 - 1e-7)
    assert not found.violation
    assert 0.3 < found.certified_epsilon <= found.claimed_epsilon == 1, "the ε of one step is told"
    assert audit(lambda xs: QUIET.release(xs), 1, [Pair([0, 5], [1, 4])], samples=10_000, confidence=1 - 1e-7).violation


def test_mistakes_are_told() -> None:
    for wrong in ({"neighbours": []}, {"neighbours": [1]}, {"confidence": 1}, {"samples": 1}, {"seconds": -1.0}):
        with pytest.raises(BadParameter):
            audit(noisy_count, 1, **wrong)  # type: ignore[arg-type]
    with pytest.raises(BadParameter):
        audit(3, 1)


def test_a_finding_in_all_its_forms(tmp_path: Path) -> None:
    found = audit(Laplace(1), 0.5, [(0, 1)], samples=40_000)
    told = json.loads(found.to_json())
    assert told["violation"] is True
    assert told["certified_epsilon"] == found.certified_epsilon
    assert {"pair", "event", "resolution"} <= told.keys()
    assert "0 and 1" in str(found)
    assert found.grade().startswith("Not private enough")
    found.report(str(tmp_path / "page.png"))
    assert (tmp_path / "page.png").stat().st_size > 10_000
    assert audit(Laplace(1), 1, [(0, 1)], samples=40_000, confidence=1 - 1e-9).grade().startswith("Passed")
