"""Canary games on simulated DP-SGD: the correct one passes, each mutant is refuted; a correct one is refuted once in 10⁹."""

from fractions import Fraction

import numpy as np
import pytest

from discreet.auditor import TrainingClaim, audit_training
from discreet.auditor.one_run import check_one_run, list_points
from discreet.auditor.training import CanaryGame, play_one_run
from discreet.auditor.training_targets import (
    CORRECT_TRAINING,
    TRAINING_MUTANTS,
    OneStepMore,
    ShortNoise,
    Shuffled,
    SimulatedTraining,
    TrainingTarget,
)
from discreet.errors import BadParameter

CONFIDENCE = 1 - Fraction(1, 10**9)
RUNS = 16_000
CLAIM = TrainingClaim(Fraction(1, 10), 1, 10)


@pytest.mark.parametrize("target", CORRECT_TRAINING, ids=lambda each: each.name)
def test_correct_training_is_not_refuted(target: TrainingTarget) -> None:
    found = target.open_game().attack(RUNS, CONFIDENCE)
    assert not found.violation, found


@pytest.mark.parametrize("target", TRAINING_MUTANTS, ids=lambda each: each.name)
def test_mutants_are_refuted(target: TrainingTarget) -> None:
    found = target.open_game().attack(RUNS, CONFIDENCE)
    assert found.violation, found


def test_one_step_more_is_counted() -> None:
    assert CanaryGame.of(OneStepMore(CLAIM), CLAIM).check_steps().violation
    assert not CanaryGame.of(SimulatedTraining(CLAIM), CLAIM).check_steps().violation


def test_the_score_is_the_log_likelihood_ratio() -> None:
    """Against densities: of N(0, z²), and of its mixture with N(1, z²)."""
    from scipy.stats import norm

    claim = TrainingClaim(Fraction(1, 4), Fraction(3, 5), 3)
    x = np.array([[0.3, -1.0, 2.5]])
    mixture = 0.75 * norm.pdf(x, 0, 0.6) + 0.25 * norm.pdf(x, 1, 0.6)
    assert claim.score(x)[0] == pytest.approx(np.log(mixture / norm.pdf(x, 0, 0.6)).sum())


def test_one_run_refutes_what_has_hardly_any_noise() -> None:
    claim = TrainingClaim(1, 5, 1)
    points = list_points(claim.event, 1000)
    assert not check_one_run(play_one_run(SimulatedTraining(claim), claim, 1000), points, 1e-9).violation
    quiet = SimulatedTraining(TrainingClaim(1, Fraction(1, 5), 1))
    assert check_one_run(play_one_run(quiet, claim, 1000), points, 1e-9).violation


def test_a_function_is_audited_with_its_batches() -> None:
    def list_batches(training: SimulatedTraining) -> list:
        return [np.flatnonzero(batch) for batch in training.include(100, 20).reshape(-1, 100)]

    right, shuffled = SimulatedTraining(CLAIM), Shuffled(CLAIM)
    found = audit_training(
        right, CLAIM, batches=list_batches(right), records=100, runs=1_000, canaries=200, confidence=CONFIDENCE
    )
    assert list(found) == ["sampler", "steps released", "canary", "one run"]
    assert not any(each.violation for each in found.values())
    found = audit_training(shuffled, CLAIM, batches=list_batches(shuffled), records=100, runs=0, canaries=0)
    assert found["sampler"].violation


def test_a_function_with_seeds_is_called_once_for_each_run() -> None:
    seeds: list[int] = []

    def train(rows: np.ndarray, seed: int) -> np.ndarray:
        seeds.append(seed)
        source = np.random.default_rng(seed)
        included = source.random((10, len(rows))) < 0.1
        return included @ rows + source.normal(size=(10, 8)) * (0.2 if len(rows) else 1)

    found = audit_training(train, CLAIM, runs=3_000, canaries=0, confidence=CONFIDENCE)
    assert found["canary"].violation
    assert len(set(seeds)) > 0.99 * len(seeds) > 1000


def test_what_cannot_be_audited_is_refused() -> None:
    with pytest.raises(BadParameter, match="claim"):
        audit_training(ShortNoise(CLAIM))
    with pytest.raises(BadParameter, match="target"):
        audit_training(3, CLAIM)
    with pytest.raises(BadParameter, match="records"):
        audit_training(ShortNoise(CLAIM), CLAIM, batches=[[1]])
    with pytest.raises(BadParameter, match="rate"):
        TrainingClaim(2, 1, 10)
