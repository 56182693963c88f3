"""Gradient descent on integers: every sum over rows is exact, and one record never changes another's contribution.

**Theory of operation.** A fit has two parts, both released with Gaussian noise.

1. *Column sums*, once: Σx and, for numbers, Σx². Their noisy values say where the columns lie and how wide they are.
2. *Gradient sums*, `steps` times: S = Σᵢ rᵢxᵢ, where the residual rᵢ is that of the present weights, clipped so that one
   record moves S by at most C.

Everything else follows from what was released, and is free: the direction P·S, where P inverts a model of the curvature
(columns that are independent, with the noisy variances), momentum, shrinkage, and the average of the later weights.

**Integers.** In floats, a row's product with the weights may differ in its last bit with the number of rows beside it, so
that removing one record would change the residuals of others, without a bound. Here the weights are integers, which are
public, and so are the rows (`features`). Products stay below 2⁵³, where doubles hold integers exactly, so sums are the same
in any order, on any number of threads. The residual comes from a table over the integer logit: no exponential of a row's own
value is computed. It is an integer on the grid 2⁻¹⁶, too.

**Proof** of the sensitivity. Row i is xᵢ on the grid, ‖xᵢ‖ ≤ ⌈‖xᵢ‖⌉ = tᵢ, in integers. Its residual is clipped to
|rᵢ| ≤ ⌊C/tᵢ⌋, so ‖rᵢxᵢ‖ ≤ C, exactly. With several classes the vector of residuals ρᵢ is multiplied by ⌊C/tᵢ⌋/⌈‖ρᵢ‖⌉ and
truncated toward zero, which makes no coordinate larger, so ‖ρᵢ‖·‖xᵢ‖ ≤ C. Adding or removing one record moves S by at most
C, and replacing one by at most 2C. What C, the number of steps and the divisor are does not depend on the rows. ∎

**Errors.** The weights are a linear function of the released gradient sums. So the noise in a weight is Gaussian with a
known standard deviation (`Path.errors`): that of its distance from the weight that the same steps would give with the exact
sums at the same released weights. It does not say how far that is from a fit without clipping, or on other people.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, log2
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.learn.features import GRID_BITS, HALF, ONE, Features, Ints
from discreet.learn.records import Rows
from discreet.mechanisms.gaussian import Gaussian
from discreet.noise import Bits

Floats: TypeAlias = NDArray[np.float64]

RESIDUAL_BITS = 16
"""Residuals are multiples of 2⁻¹⁶."""

MAX_WEIGHT_BITS = 10
"""Weights are clamped to ±2¹⁰ before rows are multiplied by them."""

CHUNK = 1 << 16
"""Rows that are summed at a time."""

EXACT_BITS = 52
"""Sums of integers stay below two to this, where doubles are exact."""

TABLE_BITS = 10
"""A logit is looked up on the grid 2⁻¹⁰."""

MIN_CURVATURE = 1e-9
"""Of a column that hardly varies."""

MAX_SHRINKAGE = 8.0
"""Of a column that hardly varies, in parts of the curvature at which noise is as large as what is learnt."""

MAX_LOGIT = 16
"""Beyond this logit the residual does not change any more."""


def count_weight_bits(features: Features) -> int:
    """Return the bits of a weight after the binary point, so that no logit reaches 2⁵².

    A logit is a sum of one product for the intercept, each number and each category, below 2¹⁶·2^(bits + 10) in size.
    """
    terms = 1 + len(features.numbers) + len(features.categories)
    return min(16, EXACT_BITS - GRID_BITS - MAX_WEIGHT_BITS - ceil(log2(terms + 1)))


def to_integer_weights(weights: Floats, bits: int) -> Floats:
    """Return weights as integers in units of 2^−bits. Weights are public."""
    limit = float(1 << (MAX_WEIGHT_BITS + bits))
    return np.clip(np.rint(np.nan_to_num(weights) * float(1 << bits)), -limit, limit)


@dataclass(frozen=True, eq=False)
class IntegerRows:
    """Rows in the form in which they are multiplied: numbers as doubles that hold integers, categories as positions."""

    features: Features
    numbers: Floats  # rows × numbers
    codes: tuple[NDArray[np.intp], ...]  # for each category, its column of the design
    target: Ints
    present: NDArray[np.bool_]
    lengths: Ints  # ⌈‖x‖⌉ on the grid

    @classmethod
    def of(cls, rows: Rows) -> "IntegerRows":
        """Prepare rows. Each result depends on its own row alone."""
        design = rows.design
        codes = tuple(
            np.ascontiguousarray(design.codes[:, place], np.intp) + offset
            for place, offset in enumerate(design.features.offsets)
        )
        numbers = np.ascontiguousarray(design.numbers, np.float64)
        return cls(design.features, numbers, codes, rows.target, rows.present, round_up_root(design.grid_norms_squared))

    def iter_chunks(self) -> Iterator["IntegerRows"]:
        """Yield the rows in chunks, whose sums are the same wherever they are cut."""
        for start in range(0, len(self.target), CHUNK):
            part = slice(start, start + CHUNK)
            yield IntegerRows(
                self.features, self.numbers[part], tuple(each[part] for each in self.codes), self.target[part],
                self.present[part], self.lengths[part],
            )  # fmt: skip

    def multiply(self, weights: Floats) -> Floats:
        """Return X·W for integer weights of one class: integers, on the grid of rows and weights."""
        numbers = len(self.features.numbers)
        logits = self.numbers @ weights[1 : 1 + numbers]
        offset = weights[0] * ONE
        logits += offset
        scaled = weights * ONE
        for codes in self.codes:
            logits += scaled[codes]
        return logits

    def sum_products(self, residuals: Floats) -> Ints:
        """Return Xᵀr for integer residuals of one class, exactly."""
        width, numbers = self.features.width, len(self.features.numbers)
        sums = np.zeros(width, np.int64)
        sums[0] = int(residuals.sum()) * ONE
        sums[1 : 1 + numbers] = (residuals @ self.numbers).astype(np.int64)
        for codes, offset, category in zip(self.codes, self.features.offsets, self.features.categories, strict=True):
            counted = np.bincount(codes - offset, weights=residuals, minlength=category.size)
            sums[offset : offset + category.size] = counted.astype(np.int64) * ONE
        return sums


def round_up_root(squares: Ints) -> Ints:
    """Return ⌈√n⌉ for integers below 2⁵², exactly: the root of a double is at most one off.

    >>> round_up_root(np.array([0, 1, 2, 4, 5, (1 << 50) + 1])).tolist()
    [0, 1, 2, 2, 3, 33554433]
    """
    roots = np.sqrt(squares.astype(np.float64)).astype(np.int64)
    roots -= roots * roots > squares
    roots += roots * roots < squares
    return roots


# Residuals: what a row is off, as an integer, from the integer logit


class Residuals(Protocol):
    """A loss: the residuals of rows at given logits, before clipping."""

    @property
    def outputs(self) -> int:
        """How many weights each column has: one, or one for each class."""
        ...

    @property
    def curvature(self) -> float:
        """The largest second derivative of the loss by the logit."""
        ...

    def compute(self, logits: Floats, target: Ints, scale_bits: int) -> Floats:
        """Return residuals as integers, in units of 2⁻¹⁶; logits are integers in units of 2^−scale_bits."""
        ...


def look_up_logits(logits: Floats, scale_bits: int) -> NDArray[np.intp]:
    """Return where each logit is in a table from −16 to 16, on the grid 2⁻¹⁰."""
    limit = MAX_LOGIT << TABLE_BITS
    steps = np.floor(logits * 2.0 ** (TABLE_BITS - scale_bits))
    return (np.clip(steps, -limit, limit) + limit).astype(np.intp)


LOGIT_GRID = (np.arange(-(MAX_LOGIT << TABLE_BITS), (MAX_LOGIT << TABLE_BITS) + 1) + 0.5) / (1 << TABLE_BITS)
SIGMOID_TABLE: Floats = np.rint((1 << RESIDUAL_BITS) / (1 + np.exp(-LOGIT_GRID)))
"""σ(z) on the grid, in units of 2⁻¹⁶: public constants."""

EXP_BITS = 24
EXP_TABLE: Floats = np.rint(np.exp(np.minimum(LOGIT_GRID, 0.0)) * (1 << EXP_BITS))
"""e^z for z ≤ 0 on the grid, in units of 2⁻²⁴: public constants."""


@dataclass(frozen=True)
class LogisticResiduals:
    """σ(z) − y for two classes."""

    outputs: int = 1
    curvature: float = 0.25

    def compute(self, logits: Floats, target: Ints, scale_bits: int) -> Floats:
        """As in `Residuals`."""
        shares: Floats = SIGMOID_TABLE[look_up_logits(logits[0], scale_bits)]
        return shares[None] - target * float(1 << RESIDUAL_BITS)


@dataclass(frozen=True)
class SoftmaxResiduals:
    """softmax(z) − e_y for several classes."""

    outputs: int
    curvature: float = 0.25

    def compute(self, logits: Floats, target: Ints, scale_bits: int) -> Floats:
        """As in `Residuals`. Quotients of integers below 2⁵³ are rounded down exactly: they are taken in 64-bit integers."""
        below = EXP_TABLE[look_up_logits(logits - logits.max(axis=0), scale_bits)].astype(np.int64)
        shares = (below << RESIDUAL_BITS) // below.sum(axis=0)
        residuals: Floats = shares.astype(np.float64)
        residuals[target, np.arange(len(target))] -= float(1 << RESIDUAL_BITS)
        return residuals


@dataclass(frozen=True)
class LinearResiduals:
    """z − y for numbers, in parts of the range of the target."""

    outputs: int = 1
    curvature: float = 1.0

    def compute(self, logits: Floats, target: Ints, scale_bits: int) -> Floats:
        """As in `Residuals`. The target is on the grid 2⁻¹⁶ of its range."""
        predicted = np.floor(logits * 2.0 ** (RESIDUAL_BITS - scale_bits))
        off: Floats = predicted - target * float(1 << (RESIDUAL_BITS - GRID_BITS))
        return off


def clip_residuals(residuals: Floats, limits: Ints) -> Floats:
    """Return residuals whose length, over the classes of a row, is at most its limit; all are integers.

    >>> clip_residuals(np.array([[3.0, 30.0], [4.0, 40.0]]), np.array([10, 10])).tolist()
    [[3.0, 6.0], [4.0, 8.0]]
    """
    bounded = limits.astype(np.float64)
    if len(residuals) == 1:
        return np.clip(residuals, -bounded, bounded)
    most = float(1 << 22)  # larger ones are far beyond any limit; their squares must stay exact
    residuals = np.clip(residuals, -most, most)
    lengths = round_up_root((residuals * residuals).sum(axis=0).astype(np.int64))
    over = lengths > limits
    if over.any():
        shrunk = np.trunc(residuals[:, over] * bounded[over] / lengths[over])
        residuals = residuals.copy()
        residuals[:, over] = shrunk
    return residuals


# What is released


@dataclass(frozen=True)
class Settings:
    """How a descent runs: constants, fixed before any row is read."""

    steps: int
    clip: Fraction  # C, in units of a row's length times a residual
    learning_rate: float
    momentum: float
    weight_scale: float  # how large weights are expected to be: what noise exceeds beside it is shrunk
    moments_share: Fraction  # of μ², for the column sums

    @property
    def clip_on_grid(self) -> int:
        """C on the grid of residuals and rows, rounded down."""
        return int(self.clip * (1 << (RESIDUAL_BITS + GRID_BITS)))


@dataclass(frozen=True)
class Descent:
    """A descent with its noise: releases, from rows, and the path that follows from what was released."""

    features: Features
    residuals: Residuals
    settings: Settings
    penalty: float = 0.0  # on squared weights, over the sum of all records
    expected: int = 1  # about how many records there are: a quarter of it is the least that a noisy count is taken for

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shapes of what is released."""
        width = self.features.width
        return {
            "moments": (width + len(self.features.numbers),),
            "gradients": (self.settings.steps, self.residuals.outputs, width),
        }

    @property
    def moments_norm_squared(self) -> int:
        """How far one record moves the column sums, squared: on the grid, 1 for the intercept and each category, ¼ and a
        sixteenth for each number and its square."""
        numbers = len(self.features.numbers)
        return self.features.grid_norm_squared + numbers * (HALF * HALF >> GRID_BITS) ** 2

    @property
    def least_size(self) -> float:
        """The least that the noisy number of records is taken for: noise must not make it next to nothing."""
        return max(self.expected / 4, 1.0)

    @cached_property
    def weight_bits(self) -> int:
        """The bits of a weight after the binary point."""
        return count_weight_bits(self.features)

    def release(self, rows: Rows, noises: Mapping[str, Gaussian], bits: Bits) -> dict[str, Ints]:
        """Return the noisy column sums and gradient sums. What is computed of rows is integers."""
        prepared = IntegerRows.of(rows)
        moments = noises["moments"].release(self.sum_columns(prepared), bits)
        return {"moments": moments, "gradients": self.release_gradients(prepared, moments, noises["gradients"], bits)}

    def release_gradients(self, prepared: IntegerRows, moments: Ints, noise: Gaussian, bits: Bits) -> Ints:
        """Return the noisy gradient sums along the path that they lead to, given the noisy column sums."""
        path = Path(self, moments, float(noise.sigma))
        gradients = np.empty(self.shapes["gradients"], np.int64)
        for step in range(self.settings.steps):
            gradients[step] = noise.release(self.sum_gradients(prepared, path.weights), bits)
            path.advance(gradients[step])
        return gradients

    def sum_columns(self, prepared: IntegerRows) -> Ints:
        """Return Σx, and Σx² of numbers, over the records that have a target."""
        total = np.zeros(self.shapes["moments"], np.int64)
        width = self.features.width
        for part in prepared.iter_chunks():
            counted = part.present.astype(np.float64)
            total[:width] += part.sum_products(counted)
            squares = np.floor(part.numbers * part.numbers * 2.0**-GRID_BITS)
            total[width:] += (counted @ squares).astype(np.int64)
        return total

    def sum_gradients(self, prepared: IntegerRows, weights: Floats) -> Ints:
        """Return the sum of the clipped gradients at public weights, one row for each class."""
        whole = to_integer_weights(weights, self.weight_bits)
        clip = self.settings.clip_on_grid
        total = np.zeros((self.residuals.outputs, self.features.width), np.int64)
        for part in prepared.iter_chunks():
            logits = np.stack([part.multiply(each) for each in whole])
            residuals = self.residuals.compute(logits, part.target, GRID_BITS + self.weight_bits)
            residuals = np.where(part.present, clip_residuals(residuals, clip // part.lengths), 0.0)
            for place, each in enumerate(residuals):
                total[place] += part.sum_products(each)
        return total

    def follow(self, released: Mapping[str, Ints], sigma: float) -> "Path":
        """Return the path that the released sums lead along: the same that `release` followed."""
        path = Path(self, released["moments"], sigma)
        for gradient in released["gradients"]:
            path.advance(gradient)
        return path


class Path:
    """The weights of a descent, as they follow from released sums: post-processing.

    Weights are those of centred columns, x − m, where m are the noisy means; an intercept belongs to the means.
    """

    def __init__(self, descent: Descent, moments: Ints, sigma: float) -> None:
        self.descent, settings = descent, descent.settings
        features, width = descent.features, descent.features.width
        numbers = len(features.numbers)
        scaled = moments / float(ONE)
        self.size = max(float(scaled[0]), descent.least_size)
        means = np.clip(scaled[:width] / self.size, -0.5, 1.0)
        means[0] = 0.0
        means[1 : 1 + numbers] = np.clip(means[1 : 1 + numbers], -0.5, 0.5)
        means[1 + numbers :] = np.clip(means[1 + numbers :], 0.0, 1.0)
        spread = np.empty(width)
        spread[0] = 1.0
        squares = np.clip(scaled[width:] / self.size, 0.0, 0.25)
        spread[1 : 1 + numbers] = np.maximum(squares - means[1 : 1 + numbers] ** 2, 0.0)
        spread[1 + numbers :] = means[1 + numbers :] * (1 - means[1 + numbers :])
        self.means = means
        self.unit = self.size * float(1 << (RESIDUAL_BITS + GRID_BITS))  # sums divided by it are means of gradients
        noise = sigma / self.unit  # of a mean gradient, in each step
        self.noise = noise
        overall = noise / settings.steps**0.5  # of the mean over all steps
        curvature = descent.residuals.curvature * spread
        least = overall / settings.weight_scale  # where noise is as large as what is learnt
        shrinkage = least * np.minimum(least / np.maximum(curvature, MIN_CURVATURE), MAX_SHRINKAGE)
        self.decay = shrinkage + descent.penalty / self.size
        self.decay[0] = 0.0
        self.inverse = 1 / (curvature + self.decay)
        shape = (descent.residuals.outputs, width)
        self._centred, self._velocity, self._sum, self._steps = np.zeros(shape), np.zeros(shape), np.zeros(shape), 0

    @property
    def weights(self) -> Floats:
        """The weights of the columns as they are, at which the next gradient is computed."""
        return self._uncentre(self._centred)

    def _uncentre(self, centred: Floats) -> Floats:
        weights = centred.copy()
        weights[:, 0] -= centred @ self.means
        return weights

    def advance(self, gradient: Ints) -> None:
        """Take one step along a released gradient sum."""
        settings = self.descent.settings
        mean = gradient / self.unit
        centred = mean - mean[:, :1] * self.means
        centred[:, 0] = mean[:, 0]
        pull = centred + self.decay * self._centred
        self._velocity = settings.momentum * self._velocity - settings.learning_rate * self.inverse * pull
        self._centred = self._centred + self._velocity
        self._steps += 1
        if self._steps > settings.steps // 2:
            self._sum = self._sum + self._centred

    @property
    def result(self) -> Floats:
        """The average of the weights over the second half of the steps, of the columns as they are."""
        return self._uncentre(self._sum / (self._steps - self.descent.settings.steps // 2))

    @property
    def errors(self) -> Floats:
        """The standard deviation of the noise in each weight of `result`, given the path that was released."""
        responses = self._respond()
        means = self.means
        own = (responses**2).sum(axis=0) * (1 + means**2)
        shared = responses[:, 0] + (responses * means**2).sum(axis=1)
        own[0] = (shared**2).sum() + ((responses * means) ** 2).sum()
        spread: Floats = self.noise * np.sqrt(own)
        return spread

    def _respond(self) -> Floats:
        """How far a unit in the gradient of each step moves each centred weight of the result."""
        settings, width = self.descent.settings, self.descent.features.width
        weight, velocity = np.zeros(width), np.zeros(width)
        after = np.empty((settings.steps + 1, width))  # sums of the responses after 0, 1, … steps
        after[0] = 0.0
        for step in range(settings.steps):
            pull = (1.0 if step == 0 else 0.0) + self.decay * weight
            velocity = settings.momentum * velocity - settings.learning_rate * self.inverse * pull
            weight = weight + velocity
            after[step + 1] = after[step] + weight
        first = settings.steps // 2  # weights after this step are averaged
        begun = np.arange(settings.steps)
        summed: Floats = after[settings.steps - begun] - after[np.maximum(first - begun, 0)]
        return summed / (settings.steps - first)
