"""A finding in words, as JSON, as a grade and as a page; and what it says that it cannot find."""

import json
from pathlib import Path

import numpy as np

from discreet import Laplace, audit

CONFIDENCE = 1 - 1e-7
PAIR = ([1], [1, 1])
NOISE = np.random.default_rng(3)


def test_a_finding_in_all_its_forms(tmp_path: Path) -> None:
    found = audit(Laplace(1), 0.5, [(0, 1)], samples=40_000)
    document = json.loads(found.to_json())
    assert document["violation"] is True
    assert document["certified_epsilon"] == found.certified_epsilon
    assert {"pair", "event", "resolution"} <= document.keys()
    assert "0 and 1" in str(found)
    assert found.grade().startswith("Not private enough")
    found.report(str(tmp_path / "page.png"))
    assert (tmp_path / "page.png").stat().st_size > 10_000
    assert audit(Laplace(1), 1, [(0, 1)], samples=40_000, confidence=1 - 1e-9).grade().startswith("Passed")


def test_a_finding_names_what_it_cannot_find() -> None:
    """Two mutants are not found, as the finding says: one leaks in few calls, one recognises the auditor's inputs."""
    calls = [0]

    def leaks_rarely(xs: list[int]) -> int:
        calls[0] += 1
        return len(xs) if calls[0] % 2_003 == 0 else round(NOISE.normal(0, 50))

    def recognises_inputs(xs: list[int]) -> int:
        return round(NOISE.normal(0, 50)) if xs in PAIR else len(xs)

    for mutant in (leaks_rarely, recognises_inputs):
        found = audit(mutant, 1, [PAIR], samples=4_000, confidence=CONFIDENCE)
        assert not found.violation
        assert found.to_dict()["not_seen"] == list(found.not_seen)
        for words in ("recognises the auditor", "fewer than", "other inputs"):
            assert words in str(found)
        assert "no proof" in found.grade()


def test_a_finding_says_first_that_every_call_failed() -> None:
    def raises(xs: list[int]) -> int:
        raise ValueError if xs else KeyError

    def raises_often(xs: list[int]) -> int:
        return round(NOISE.normal(0, 50)) if NOISE.random() < 0.1 else raises([1])

    found = audit(raises, 1, [([1], [1, 1])], samples=1_000, confidence=CONFIDENCE)
    assert str(found).startswith("Every call failed (raises ValueError): no output was tested.")
    assert json.loads(found.to_json())["failures"] == ["raises ValueError"]
    assert not found.grade().startswith("Passed")
    leaking = audit(raises, 1, [([], [1])], samples=4_000, confidence=CONFIDENCE)
    assert leaking.violation, "which exception is raised is an output too"
    assert "raises KeyError, raises ValueError" in str(leaking)
    assert audit(raises_often, 1, [([1], [1, 1])], samples=1_000, confidence=CONFIDENCE).failures == ()
