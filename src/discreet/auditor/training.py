"""`audit_training`: replay, the sampler's law, white-box canaries and a one-run audit, for DP-SGD of any origin.

**The game.** The auditor sees every released update, the strongest position that DP-SGD's analysis allows: its cost is that
of releasing the whole trajectory. Records are *gradients*: the loss is ⟨w, x⟩, so record x has the gradient x, and a canary
is a record in a direction of its own (a Dirac gradient), beyond the clip norm. A run without the canary is compared with one
with it. With u the canary's direction and x_t the projection of update t on it, in units of the clip norm, the
log-likelihood ratio of the claimed mechanism is

    Σ_t log(1 − q + q·exp((2x_t − 1)/(2z²)))

Beside it the attack gets sums, extremes and spreads of the x_t, and how large the other coordinates are, where a divisor
that follows from the data shows. `audit` then learns scores on some runs, chooses events and points of the claimed curve on
others, and certifies them on fresh ones: every point of the curve is tested, not one (ε, δ), where faults hardly show.

**Which fault shows where.** Clipping, divisors, batch norm, steps that depend on the data: in a replay, without statistics.
Shuffled batches: in the sampler's law, at any noise; in the game only where noise is small (z ≤ 0.6), or beside companions
of the opposite direction [CGK24]. Noise that is too small, reused or misplaced: in the game.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from random import SystemRandom
from typing import Any, Literal, TypeAlias

import numpy as np

from discreet._numbers import Number, check_int, check_positive, check_probability, to_rational
from discreet.auditor.attack import Progress, audit
from discreet.auditor.finding import Check, Finding
from discreet.auditor.one_run import OneRun, check_one_run, list_points
from discreet.auditor.outputs import Floats
from discreet.auditor.sampler_law import Batches, check_batches
from discreet.auditor.training_replay import replay_estimator
from discreet.errors import BadParameter
from discreet.events import Composition, repeat, subsample
from discreet.learn.estimator import PrivateEstimator
from discreet.mechanisms import Gaussian

Train: TypeAlias = Callable[[Floats, int], Any]
"""Trains once with the loss ⟨w, x⟩ on rows, one record each, and a seed; returns the released update of each step."""

Companions: TypeAlias = Literal["beside", "opposed", "none"]
WITHOUT, WITH = "without the canary", "with the canary"
DIMENSION = 8
COMPANIONS = 19
"""So many that a divisor ⌊nq⌋ at q = 1/10 changes with one more."""
CANARY_LENGTH = 2
"""In clip norms: beyond one, so that a canary that is not clipped shows."""
MAX_STEPS = 10
BATCHES, RECORDS = 200, 200
ONE_RUN_CANARIES = 500
DEFAULT_RUNS = 2_000


@dataclass(frozen=True)
class TrainingClaim:
    """What DP-SGD claims: each record is in a batch with probability `rate`, its gradient is clipped to `clip`, and noise of
    deviation noise·clip is added to the sum, in `steps` steps. An update is the noisy sum divided by `divisor`."""

    rate: Number
    noise: Number
    steps: int
    clip: Number = 1
    divisor: Number = 1

    def __post_init__(self) -> None:
        if not 0 < to_rational(self.rate, "rate") <= 1:
            raise BadParameter(
                "rate", self.rate, "not a probability", "give the rate of inclusion, such as Fraction(1, 100)"
            )
        check_int(self.steps, "steps", 1)
        for name in ("noise", "clip", "divisor"):
            check_positive(getattr(self, name), name)

    @cached_property
    def event(self) -> Composition:
        """The event of the whole run, which has the certified curve that is tested."""
        return repeat(subsample(Gaussian(self.noise).event(1), to_rational(self.rate)), self.steps)

    def project(self, updates: Any, direction: Floats) -> Floats:
        """Return updates (runs × steps × coordinates) along a unit direction, in units of the clip norm."""
        scale = float(to_rational(self.divisor) / to_rational(self.clip))
        return np.asarray(np.asarray(updates, np.float64) @ direction * scale, np.float64)

    def score(self, projected: Floats) -> Floats:
        """Return the log-likelihood ratio of the claimed mechanism, over the last axis (steps)."""
        q, z = float(to_rational(self.rate)), float(to_rational(self.noise))
        exponents = np.clip((2 * projected - 1) / (2 * z * z), -700, 700)
        ratios = np.log1p(q * np.expm1(exponents)) if q < 1 else exponents
        return np.asarray(ratios.sum(axis=-1), np.float64)


# -- white box --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CanaryGame:
    """One canary, in or out, beside companions; an attack on all released updates.

    >>> game = CanaryGame.of(lambda rows, seed: [rows.sum(axis=0)], TrainingClaim(1, noise=1, steps=1), companions="none")
    >>> game.canary.shape == (DIMENSION,), len(game.companions)
    (True, 0)
    """

    train: Train
    claim: TrainingClaim
    canary: Floats
    companions: Floats

    @classmethod
    def of(
        cls,
        train: Train,
        claim: TrainingClaim,
        canary: Sequence[float] | Floats | None = None,
        companions: Companions = "beside",
        dimension: int = DIMENSION,
    ) -> "CanaryGame":
        """Choose a canary and companions: beside it, opposed to it (their gradients are −1), or none."""
        clip = float(to_rational(claim.clip))
        first, second = np.eye(dimension)[:2] * clip
        chosen = first * CANARY_LENGTH if canary is None else np.asarray(canary, np.float64)
        rows = {"beside": second, "opposed": -chosen / np.linalg.norm(chosen) * clip, "none": second}[companions]
        return cls(train, claim, chosen, np.tile(rows, (0 if companions == "none" else COMPANIONS, 1)))

    def sample(self, side: str, n: int) -> Floats:
        """Train n times and return what the attack looks at: one row for each run."""
        rows = np.vstack([self.companions, self.canary[None]]) if side == WITH else self.companions
        return self.summarise(self._run_many(rows, n))

    def _run_many(self, rows: Floats, n: int) -> Floats:
        """Return n runs × steps × coordinates; a run with fewer steps is filled up with zeros."""
        at_once = getattr(self.train, "run_many", None)
        if at_once is not None:
            return np.asarray(at_once(rows, n), np.float64)
        source = SystemRandom()
        runs = [np.asarray(self.train(rows, source.randrange(2**31)), np.float64) for _ in range(n)]
        steps = max(self.claim.steps, *(len(each) for each in runs))
        filled = np.zeros((n, steps, len(self.canary)))
        for place, each in enumerate(runs):
            filled[place, : len(each)] = each.reshape(len(each), -1)
        return filled

    def summarise(self, updates: Floats) -> Floats:
        """Return the score, the sum, the extremes and the spread along the canary, the size of all other coordinates,
        and the first steps one by one, where batches in a fixed order show."""
        direction = self.canary / np.linalg.norm(self.canary)
        along = self.claim.project(updates, direction)
        scale = float(to_rational(self.claim.divisor) / to_rational(self.claim.clip))
        rest = updates * scale - along[..., None] * direction
        ordered = np.sort(along, axis=1)
        gaps = np.diff(ordered, axis=1).max(axis=1) if along.shape[1] > 1 else np.zeros(len(along))
        columns = [
            self.claim.score(along), along.sum(axis=1), ordered[:, -1], ordered[:, 0], ordered[:, -1] - ordered[:, 0], gaps,
            (rest * rest).mean(axis=(1, 2)), rest.sum(axis=(1, 2)), (along == 0).sum(axis=1).astype(np.float64),
        ]  # fmt: skip
        return np.column_stack([*columns, along[:, :MAX_STEPS]])

    def check_steps(self) -> Check:
        """Check that as many updates are released as are claimed, with and without the canary."""
        for rows in (self.companions, np.vstack([self.companions, self.canary[None]])):
            released = np.asarray(self.train(rows, SystemRandom().randrange(2**31)))
            if len(released) != self.claim.steps:
                return Check("steps", f"{len(released)} updates are released, and {self.claim.steps} are claimed")
        return Check("steps", passed=f"{self.claim.steps} updates are released, as is claimed")

    def attack(self, runs: int, confidence: Number, progress: Progress | None = None) -> Finding:
        """Attack with so many runs in all, and certify against the whole curve of the claim."""
        return audit(self, self.claim.event, [(WITHOUT, WITH)], samples=runs, confidence=confidence, progress=progress)


# -- one run ----------------------------------------------------------------------------------------------------------------


def play_one_run(train: Train, claim: TrainingClaim, canaries: int = ONE_RUN_CANARIES) -> OneRun:
    """Train once with canaries in directions of their own, each in by a fair coin, and score all of them."""
    source = SystemRandom()
    included = np.array([source.getrandbits(1) for _ in range(canaries)], bool)
    clip = float(to_rational(claim.clip))
    rows = np.eye(canaries)[included] * clip
    updates = np.asarray(train(rows, source.randrange(2**31)), np.float64).reshape(-1, canaries)
    scale = float(to_rational(claim.divisor)) / clip
    return OneRun(claim.score(updates.T * scale), included)


# -- all of it --------------------------------------------------------------------------------------------------------------


def audit_training(
    target: Any,
    claim: TrainingClaim | None = None,
    *,
    rows: tuple[Any, Any] | None = None,
    batches: Batches | None = None,
    records: int | None = None,
    companions: Companions = "beside",
    dimension: int = DIMENSION,
    runs: int = DEFAULT_RUNS,
    canaries: int = ONE_RUN_CANARIES,
    confidence: Number = 0.999,
    progress: Progress | None = None,
) -> dict[str, Check | Finding]:
    """Audit training: replay it without noise, test its batches, and attack it with canaries.

    Args:
        target: a `PrivateTrainer`; a model of `discreet.learn`; or a function of (rows, seed) that trains with the loss
            ⟨w, x⟩ on rows, each of which is one record, and returns the released update of each step.
        claim: of a function: what it claims. A trainer and a model have their own.
        rows: features and targets for the replay; of a trainer, invented ones if left out. They need not be private.
        batches, records: of a function: the records of some batches by position, and how many records there were, to test
            whether they are Poisson samples.
        companions: the records beside the canary: "beside" it, "opposed" to it, which shows shuffled batches, or "none".
        dimension: how many coordinates a record has in the game.
        runs: how often it is trained in the game of one canary; 0 leaves the game out.
        canaries: of the one-run audit; 0 leaves it out.
        confidence: with which all findings hold together. Replay has no false alarms.

    Returns:
        Checks and findings by name. `violation` of each says whether it refutes the claim.

    >>> from discreet.learn import LogisticRegression
    >>> model = LogisticRegression(epsilon=1, delta=1e-6, bounds={"x": (0, 1)}, classes=(0, 1), expected=10, steps=2)
    >>> found = audit_training(model, rows=({"x": np.linspace(0, 1, 10)}, np.arange(10) % 2))
    >>> list(found), any(each.violation for each in found.values())
    (['sensitivity', 'order', 'no target'], False)
    """
    alpha = (1 - check_probability(confidence, "confidence")) / 3
    if isinstance(target, PrivateEstimator):
        if rows is None:
            raise BadParameter(
                "rows", "missing", "a model is replayed on records", "give rows=(features, targets), invented"
            )
        return dict(replay_estimator(target, *rows))
    found: dict[str, Check | Finding] = {}
    train, wide = target, target
    if hasattr(target, "schedule") and hasattr(target, "plan"):  # without importing PyTorch for other targets
        from discreet.auditor.trainer_replay import CanaryTrainer, draw_batches, replay_trainer

        found |= replay_trainer(target, *(rows or (None, None)))
        batches, records = draw_batches(target, RECORDS, BATCHES), RECORDS
        claim = read_claim(target)
        train = CanaryTrainer(target, dimension, claim.steps) if runs else None
        wide = CanaryTrainer(target, canaries, claim.steps) if canaries else None
    elif not callable(target):
        raise BadParameter(
            "target", f"of type {type(target).__name__}", "neither a trainer nor a model nor a function",
            "give a PrivateTrainer, a model of discreet.learn, or a function of (rows, seed)",
        )  # fmt: skip
    if claim is None:
        raise BadParameter("claim", "missing", "a function does not say what it claims", "give claim=TrainingClaim(…)")
    if batches is not None:
        if records is None:
            raise BadParameter("records", "missing", "batches are given", "say of how many records they were drawn")
        found["sampler"] = check_batches(batches, records, claim.rate, float(alpha))
    if runs:
        game = CanaryGame.of(train, claim, None, companions, dimension)
        found["steps released"] = game.check_steps()
        found["canary"] = game.attack(runs, 1 - alpha, progress)
    if canaries:
        found["one run"] = check_one_run(
            play_one_run(wide, claim, canaries), list_points(claim.event, canaries), float(alpha)
        )
    return found


def read_target(given: Any) -> tuple[Any, dict[str, Any]]:
    """Return what to audit and its options, of a trainer, (model, rows), (function, claim), or a function that returns one.

    >>> claim = TrainingClaim(Fraction(1, 10), 1, 10)
    >>> read_target(lambda: (print, claim)) == (print, {"claim": claim})
    True
    """
    if callable(given) and not isinstance(given, type) and not hasattr(given, "schedule"):
        try:
            given = given()
        except TypeError:
            raise BadParameter(
                "target", getattr(given, "__name__", "a function"), "a function of (rows, seed) does not say what it claims",
                "name (function, TrainingClaim(…)), or a function without arguments that returns that",
            ) from None  # fmt: skip
    if not isinstance(given, tuple):
        return given, {}
    target, detail = given
    return target, {"claim": detail} if isinstance(detail, TrainingClaim) else {"rows": detail}


def read_claim(trainer: Any) -> TrainingClaim:
    """Return what a `PrivateTrainer` claims, with at most `MAX_STEPS` steps; its canary trainer returns sums."""
    schedule = trainer.schedule
    return TrainingClaim(schedule.rate, trainer.plan.noise, min(schedule.steps, MAX_STEPS), schedule.clip, Fraction(1))
