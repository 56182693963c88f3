"""DP-SGD to audit, simulated many runs at once: the correct one, and mutants with one fault each.

Each takes rows as gradients and returns noisy sums divided by the divisor, as `training.Train` says. Noise and batches are
exact, so that only the fault shows. `TRAINING_MUTANTS` says of each fault which game shows it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet._numbers import to_rational
from discreet.auditor.outputs import Floats
from discreet.auditor.training import CanaryGame, Companions, TrainingClaim
from discreet.noise import SYSTEM, bernoulli, rounded_gaussian

GRID = 1 << 20
"""Noise is drawn on this grid."""
MAX_NUMBERS = 1 << 22
"""So many inclusions or coordinates are simulated at once."""

Included = NDArray[np.bool_]


def clip_rows(rows: Floats, clip: float) -> Floats:
    """Return rows of at most this norm."""
    norms = np.linalg.norm(rows, axis=-1, keepdims=True)
    return np.asarray(rows * np.minimum(1, clip / np.maximum(norms, 1e-300)), np.float64)


def draw_gaussian(sigma: float, shape: tuple[int, ...]) -> Floats:
    """Return exact Gaussian noise on the grid 2⁻²⁰."""
    size = int(np.prod(shape))
    return np.asarray(rounded_gaussian(Fraction(sigma) * GRID, size, SYSTEM).reshape(shape) / GRID, np.float64)


@dataclass(frozen=True)
class SimulatedTraining:
    """DP-SGD on gradients that do not depend on the weights. Subclasses have one fault each."""

    claim: TrainingClaim

    @property
    def clip(self) -> float:
        """The clip norm."""
        return float(to_rational(self.claim.clip))

    @property
    def sigma(self) -> float:
        """The deviation of the noise on a sum."""
        return float(to_rational(self.claim.noise)) * self.clip

    @property
    def divisor(self) -> float:
        """What sums are divided by."""
        return float(to_rational(self.claim.divisor))

    def __call__(self, rows: Floats, seed: int) -> Floats:
        """Train once."""
        return np.asarray(self.run_many(rows, 1)[0], np.float64)

    def run_many(self, rows: Floats, n: int) -> Floats:
        """Return the updates of n runs: runs × steps × coordinates."""
        each = self.claim.steps * max(len(rows), rows.shape[1])
        size = max(1, MAX_NUMBERS // each)
        return np.concatenate([self._run(rows, min(size, n - start)) for start in range(0, n, size)])

    def _run(self, rows: Floats, n: int) -> Floats:
        included = self.include(len(rows), n)
        sums = np.tensordot(included.astype(np.float64), self.contribute(rows), axes=1)
        return self.release(sums, included, rows)

    def include(self, records: int, n: int) -> Included:
        """Return which records are in which batches: runs × steps × records."""
        shape = (n, self.claim.steps, records)
        return bernoulli(to_rational(self.claim.rate), int(np.prod(shape)), SYSTEM).reshape(shape).astype(bool)

    def contribute(self, rows: Floats) -> Floats:
        """Return what each record adds to a sum."""
        return clip_rows(rows, self.clip)

    def release(self, sums: Floats, included: Included, rows: Floats) -> Floats:
        """Return the updates."""
        return (sums + draw_gaussian(self.sigma, sums.shape)) / self.divisor


class NoClipping(SimulatedTraining):
    """Gradients are summed as they are."""

    def contribute(self, rows: Floats) -> Floats:
        return rows


class TrueMean(SimulatedTraining):
    """The sum is divided by the size of the batch, its noise by the declared divisor."""

    def release(self, sums: Floats, included: Included, rows: Floats) -> Floats:
        sizes = np.maximum(included.sum(axis=2), 1)[..., None]
        return np.asarray(sums / sizes + draw_gaussian(self.sigma, sums.shape) / self.divisor)


class ShortNoise(SimulatedTraining):
    """Noise is too small by √2."""

    @property
    def sigma(self) -> float:
        return super().sigma / 2**0.5


class NoiseAveragedTwice(SimulatedTraining):
    """Noise for a mean is added to the sum, which is then divided."""

    @property
    def sigma(self) -> float:
        return super().sigma / self.divisor


class SameNoise(SimulatedTraining):
    """All steps of a run have the same noise."""

    def release(self, sums: Floats, included: Included, rows: Floats) -> Floats:
        noise = draw_gaussian(self.sigma, (len(sums), 1, sums.shape[2]))
        return (sums + noise) / self.divisor


class DivisorFromData(SimulatedTraining):
    """The divisor is ⌊nq⌋ of the true number of records."""

    def release(self, sums: Floats, included: Included, rows: Floats) -> Floats:
        return super().release(sums, included, rows) * self.divisor / max(1, int(len(rows) * to_rational(self.claim.rate)))


class FixedOrder(SimulatedTraining):
    """Batches are taken in the order of the records, the last record in the last batch of each epoch."""

    def include(self, records: int, n: int) -> Included:
        epoch = round(1 / float(to_rational(self.claim.rate)))
        step = np.arange(self.claim.steps)[:, None] % epoch
        of = (np.arange(records) - records) % epoch
        return np.broadcast_to(step == of, (n, self.claim.steps, records))


class Shuffled(SimulatedTraining):
    """Each epoch is a random permutation, cut into batches of equal size."""

    def include(self, records: int, n: int) -> Included:
        epoch = round(1 / float(to_rational(self.claim.rate)))
        words = SYSTEM.words(n * -(-self.claim.steps // epoch) * max(records, 1)).reshape(n, -1, max(records, 1))
        batch = words.argsort(axis=2).argsort(axis=2) % epoch if records else words[:, :, :0]
        steps = np.arange(self.claim.steps)
        return np.asarray(batch[:, steps // epoch, :] == (steps % epoch)[None, :, None], bool)


class NoiseBeforeClipping(SimulatedTraining):
    """Each gradient gets noise, and is clipped with it."""

    def _run(self, rows: Floats, n: int) -> Floats:
        included = self.include(len(rows), n)
        noisy = rows + draw_gaussian(self.sigma, (n, self.claim.steps, *rows.shape))
        return np.asarray((clip_rows(noisy, self.clip) * included[..., None]).sum(axis=2) / self.divisor)


class ClippedMean(SimulatedTraining):
    """The mean gradient of the batch is clipped, not each gradient."""

    def _run(self, rows: Floats, n: int) -> Floats:
        included = self.include(len(rows), n)
        sizes = np.maximum(included.sum(axis=2), 1)[..., None]
        means = np.tensordot(included.astype(np.float64), rows, axes=1) / sizes
        return self.release(clip_rows(means, self.clip) * self.divisor, included, rows)


class NoiseWithoutClip(SimulatedTraining):
    """The deviation of the noise is the multiplier, not multiplier times clip norm."""

    @property
    def sigma(self) -> float:
        return super().sigma / self.clip


@dataclass(frozen=True)
class RateFromLength(SimulatedTraining):
    """The rate is a wanted batch size over the true number of records."""

    batch: int = 8

    def include(self, records: int, n: int) -> Included:
        shape = (n, self.claim.steps, records)
        rate = min(Fraction(1), Fraction(self.batch, max(records, 1)))
        return bernoulli(rate, int(np.prod(shape)), SYSTEM).reshape(shape).astype(bool)


class SkipsEmpty(SimulatedTraining):
    """A batch without records releases nothing, not even noise."""

    def release(self, sums: Floats, included: Included, rows: Floats) -> Floats:
        return np.where(np.any(included, axis=2, keepdims=True), super().release(sums, included, rows), 0.0)


class NoisePerChunk(SimulatedTraining):
    """Noise is added to each chunk of two records, so that its variance tells the size of a batch."""

    def release(self, sums: Floats, included: Included, rows: Floats) -> Floats:
        chunks = -(-included.sum(axis=2) // 2)[..., None]
        return np.asarray((sums + draw_gaussian(self.sigma, sums.shape) * np.sqrt(chunks)) / self.divisor)


class ClippedPerLayer(SimulatedTraining):
    """Both halves of the coordinates are clipped to the whole norm."""

    def contribute(self, rows: Floats) -> Floats:
        half = rows.shape[1] // 2
        return np.hstack([clip_rows(rows[:, :half], self.clip), clip_rows(rows[:, half:], self.clip)])


class OneStepMore(SimulatedTraining):
    """One step more is made than is claimed."""

    def run_many(self, rows: Floats, n: int) -> Floats:
        return SimulatedTraining(replace(self.claim, steps=self.claim.steps + 1)).run_many(rows, n)


@dataclass(frozen=True)
class TrainingTarget:
    """A simulated training, the game that shows its fault, and the claim."""

    name: str
    make: Callable[[TrainingClaim], SimulatedTraining]
    noise: Fraction = Fraction(1)
    clip: int = 1
    companions: Companions = "beside"
    canary: tuple[float, ...] | None = None
    rate: Fraction = Fraction(1, 10)

    def open_game(self, rate: Fraction | None = None, noise: Fraction | None = None) -> CanaryGame:
        """Return the game, at the target's rate and noise multiplier or others."""
        claim = TrainingClaim(rate or self.rate, noise or self.noise, 10, self.clip, divisor=2)
        return CanaryGame.of(self.make(claim), claim, self.canary, self.companions, dimension=4)


CORRECT_TRAINING = [
    TrainingTarget("DP-SGD", SimulatedTraining),
    TrainingTarget(
        "DP-SGD with little noise and opposed companions", SimulatedTraining, Fraction(3, 5), companions="opposed"
    ),
    TrainingTarget("DP-SGD without companions, clip norm 4", SimulatedTraining, clip=4, companions="none"),
]
TRAINING_MUTANTS = [
    TrainingTarget("no clipping", NoClipping),
    TrainingTarget("mean by the true batch size", TrueMean, companions="none"),
    TrainingTarget("noise short by √2", ShortNoise, Fraction(3), rate=Fraction(1)),
    TrainingTarget("noise averaged twice", NoiseAveragedTwice),
    TrainingTarget("same noise in every step", SameNoise),
    TrainingTarget("divisor from the data", DivisorFromData),
    TrainingTarget("fixed order", FixedOrder),
    TrainingTarget("shuffled batches", Shuffled, Fraction(1, 2), companions="opposed"),
    TrainingTarget("noise before clipping", NoiseBeforeClipping, companions="none"),
    TrainingTarget("clipped mean", ClippedMean, companions="opposed", canary=(100.0, 0.0, 0.0, 0.0)),
    TrainingTarget("noise without the clip norm", NoiseWithoutClip, clip=4),
    TrainingTarget("rate from the number of records", RateFromLength),
    TrainingTarget("empty batches are skipped", SkipsEmpty, companions="none"),
    TrainingTarget("noise for each chunk", NoisePerChunk, companions="none"),
    TrainingTarget("clipped for each layer", ClippedPerLayer, Fraction(3), 1, "none", (2.0, 0.0, 2.0, 0.0), Fraction(1)),
]
