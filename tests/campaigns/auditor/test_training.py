"""Canary games on DP-SGD with many runs, at the rate of 1/10 for all mutants; and Opacus in its own environment."""

import json
import subprocess
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.peers import interpreter

from discreet.auditor import CanaryGame, TrainingClaim, check_batches
from discreet.auditor.training_targets import CORRECT_TRAINING, TRAINING_MUTANTS, Shuffled, TrainingTarget

pytestmark = pytest.mark.nightly

RUNS = 400_000
"""200,000 a side."""
CONFIDENCE = 1 - Fraction(1, 10**9)
RATE = Fraction(1, 10)


@pytest.mark.parametrize("noise", [Fraction(1), Fraction(3, 5)], ids=str)
@pytest.mark.parametrize("target", CORRECT_TRAINING, ids=lambda each: each.name)
def test_correct_training_is_not_refuted(target: TrainingTarget, noise: Fraction) -> None:
    found = target.open_game(RATE, noise).attack(RUNS, CONFIDENCE)
    assert not found.violation, found


# At the larger noise shuffled batches pass for Poisson samples; the sampler's law refutes them there.
GAMES = [
    pytest.param(target, noise, id=f"{target.name}-{noise}")
    for target in TRAINING_MUTANTS
    for noise in (Fraction(1), Fraction(3, 5))
    if target.make is not Shuffled or noise < 1
]


@pytest.mark.parametrize(("target", "noise"), GAMES)
def test_mutants_are_refuted(target: TrainingTarget, noise: Fraction) -> None:
    found = target.open_game(RATE, noise).attack(RUNS, CONFIDENCE)
    assert found.violation, found


# Opacus


PACKAGES = ["torch==2.13.0", "opacus==1.6.0"]
SCRIPT = Path(__file__).parents[3] / "benchmarks" / "peer_opacus_audit.py"


class Opacus:
    """Opacus as a target: a process that trains for each line of JSON and returns the released updates and the batches."""

    def __init__(self, claim: TrainingClaim, fault: str = "") -> None:
        settings = json.dumps({
            "rate": float(claim.rate), "noise": float(claim.noise), "steps": claim.steps, "fault": fault,
            "divisor": 2 if fault == "divisor" else None,
        })  # fmt: skip
        command = [str(interpreter("opacus", PACKAGES)), "-W", "ignore", str(SCRIPT), settings]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.batches: list[list[int]] = []

    def __call__(self, rows: np.ndarray, seed: int) -> np.ndarray:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"rows": rows.tolist(), "dimension": rows.shape[1], "seed": seed}) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        self.batches = answer["batches"]
        return np.array(answer["updates"])

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()  # closes the pipes


CLAIM = TrainingClaim(RATE, 1, 10)


@pytest.fixture
def opacus(request: pytest.FixtureRequest) -> Iterator[Opacus]:
    target = Opacus(CLAIM, getattr(request, "param", ""))
    yield target
    target.close()


def test_opacus_is_not_refuted(opacus: Opacus) -> None:
    found = CanaryGame.of(opacus, CLAIM).attack(4_000, CONFIDENCE)
    assert not found.violation, found


@pytest.mark.parametrize("opacus", ["divisor"], indirect=True)
def test_the_divisor_of_opacus_tells_how_many_records_there_are(opacus: Opacus) -> None:
    """Opacus divides by ⌊nq⌋ of the true n: its updates, other than its noisy sums, are refuted under add/remove."""
    found = CanaryGame.of(opacus, CLAIM).attack(1_000, CONFIDENCE)
    assert found.violation, found


@pytest.mark.parametrize("opacus", ["noise"], indirect=True)
def test_opacus_with_a_tenth_of_its_noise_is_refuted(opacus: Opacus) -> None:
    found = CanaryGame.of(opacus, CLAIM).attack(4_000, CONFIDENCE)
    assert found.violation, found


@pytest.mark.parametrize(("opacus", "refuted"), [("", False), ("shuffle", True)], indirect=["opacus"])
def test_the_batches_of_opacus(opacus: Opacus, refuted: bool) -> None:
    """With `poisson_sampling=False` the batches are shuffled, while the accountant stays that of Poisson samples."""
    batches: list[list[int]] = []
    for seed in range(20):
        opacus(np.zeros((100, 4)), seed)
        batches += opacus.batches
    assert check_batches(batches, 100, RATE).violation is refuted
