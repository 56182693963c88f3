"""Gradient descent on integers: every sum over rows is exact, and one record never changes another's contribution.

**Theory of operation.** A fit has two parts, both released with Gaussian noise.

1. *Sums*, once: Σx and, for numbers, Σx²; and Σy and Σy² of a target that is a number. Their noisy values say where columns
   and target lie and how wide they are (`Outline`), as far as noise lets them: the rest is what the declaration suggests.
2. *Gradient sums*, `steps` times: S = Σᵢ rᵢxᵢ. Numbers are shifted by their noisy mean and divided by their noisy width,
   and residuals of numbers by the noisy width of the target, so that loose bounds cost little. The residual rᵢ is that of
   the present weights, clipped so that one record moves S by at most C.

Everything else follows from what was released, and is free: the direction P·S, where P inverts a model of the curvature
(columns that are independent, with the noisy variances), momentum, shrinkage, the average of the later weights, and in the
end the factor of James and Stein [JS61] for each column: what noise alone would make of its weights is taken off.

**Integers.** In floats, a row's product with the weights may differ in its last bit with the number of rows beside it, so
that removing one record would change the residuals of others, without a bound. Here the weights are integers, which are
public, and so are the rows (`features`; shifted and divided, they are rounded down and clamped to ±1). Products stay below
2⁵³, where doubles hold integers exactly, so sums are the same in any order, on any number of threads. The residual comes
from a table over the integer logit: no exponential of a row's own value is computed. It is an integer on the grid 2⁻¹⁶,
too.

**Proof** of the sensitivity. A record adds 1 to the intercept's sum and to one of each category, at most ½ and ¼ for a
number and its square, and as much for the target. Given these releases, row i is xᵢ on the grid, ‖xᵢ‖ ≤ ⌈‖xᵢ‖⌉ = tᵢ, in
integers. Its residual is clipped to |rᵢ| ≤ ⌊C/tᵢ⌋, so ‖rᵢxᵢ‖ ≤ C, exactly. With several classes the vector of residuals ρᵢ
is multiplied by ⌊C/tᵢ⌋/⌈‖ρᵢ‖⌉ and truncated toward zero, which makes no coordinate larger, so ‖ρᵢ‖·‖xᵢ‖ ≤ C. Adding or
removing one record moves S by at most C, and replacing one by at most 2C. What xᵢ and rᵢ are depends on record i and on
earlier releases alone; C, the number of steps and the divisor do not depend on the rows. ∎

**Errors.** The weights are a linear function of the released gradient sums. So the noise in a weight is Gaussian with a
known standard deviation (`Path.errors`): that of its distance from the weight that the same steps would give with the exact
sums at the same released weights, before the last shrinkage, which makes a weight smaller and not better known. It does not
say how far that is from a fit without clipping, or on other people.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import ceil, log2
from typing import Any, Protocol, TypeAlias

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

DEVIATIONS = 3.0
"""Numbers are clamped at this many standard deviations from their mean, as noisy sums say, before they are multiplied."""

MIDDLE_SPREAD = 0.2
"""How far a mean is expected from the middle of its bounds, in ranges, before anything is known."""

TYPICAL_VARIANCE = 1 / 24
"""Which variance is expected, and how far from it, in squared ranges."""

LEAST_VARIANCE = 2.0**-12
"""Of a number or a target, in squared ranges: widths are 2⁻⁶ of a range at least."""

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

    def standardise(self, middles: Floats, widths: Floats) -> "IntegerRows":
        """Return rows whose numbers are shifted by released means and divided by released widths, clamped to ±1."""
        if not self.numbers.shape[1]:
            return self
        numbers = np.clip(np.floor((self.numbers - np.rint(middles * ONE)) * (1 / widths)), -ONE, ONE)
        squares = (1 + len(self.codes)) * ONE * ONE + (numbers * numbers).sum(axis=1).astype(np.int64)
        return replace(self, numbers=numbers, lengths=round_up_root(squares))

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
    """z − y for numbers, in parts of the range of the target, divided by `width`: a released width of the target."""

    outputs: int = 1
    curvature: float = 1.0
    width: float = 1.0

    def compute(self, logits: Floats, target: Ints, scale_bits: int) -> Floats:
        """As in `Residuals`. The target is on the grid 2⁻¹⁶ of its range."""
        predicted = np.floor(logits * 2.0 ** (RESIDUAL_BITS - scale_bits))
        off: Floats = predicted - target * float(1 << (RESIDUAL_BITS - GRID_BITS))
        return np.floor(off * (1 / self.width))


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
    total_effect: float  # how far all columns together move a prediction: what noise exceeds beside it is shrunk
    moments_share: Fraction  # of μ², for the column sums
    target_share: Fraction  # for the sums of a target that is a number

    @property
    def clip_on_grid(self) -> int:
        """C on the grid of residuals and rows, rounded down."""
        return int(self.clip * (1 << (RESIDUAL_BITS + GRID_BITS)))

    @property
    def gradients_share(self) -> Fraction:
        """What is left for the gradients."""
        return 1 - self.moments_share - self.target_share


def shrink(found: Any, noise: Any, prior: Any, spread: Any) -> Any:
    """Return noisy values, pulled to what is expected without them, by how far noise exceeds what is expected to vary.

    >>> shrink(10.0, 1.0, 0.0, 3.0), shrink(10.0, 3.0, 0.0, 1.0)
    (9.0, 1.0)
    """
    return prior + (found - prior) * (spread**2 / (spread**2 + noise**2))


def bound_width(variances: Any, noise: Any) -> Any:
    """Return standard deviations. A variance is taken for half its noise at least, as far as that is typical."""
    return np.sqrt(np.maximum(variances, np.clip(noise / 2, LEAST_VARIANCE, TYPICAL_VARIANCE)))


@dataclass(frozen=True, eq=False)
class Outline:
    """Where the columns and the target lie, from noisy sums; where noise exceeds them, as the declaration suggests."""

    size: float  # how many records there are
    shares: Floats  # of each column of a category, how many records have it; 0 elsewhere
    middles: Floats  # of numbers, in ranges of their bounds
    widths: Floats  # what is 1 afterwards
    trust: float  # how far the middles are known, from 0 to 1
    target_middle: float = 0.0
    target_width: float = 1.0

    @classmethod
    def of(cls, descent: "Descent", sums: "NoisySums") -> "Outline":
        """Read noisy sums."""
        features, width = descent.features, descent.features.width
        numbers = len(features.numbers)
        scaled, noises = sums.moments / float(ONE), sums.moment_noises / float(ONE)
        expected = float(descent.expected)
        size = max(shrink(scaled[0], noises[0], expected, expected / 2), expected / 4, 1.0)
        found, off = scaled / size, noises / size
        middles = np.clip(shrink(found[1 : 1 + numbers], off[1 : 1 + numbers], 0.0, MIDDLE_SPREAD), -0.5, 0.5)
        variances = shrink(found[width:] - middles**2, off[width:], TYPICAL_VARIANCE, TYPICAL_VARIANCE)
        shares = np.zeros(width)
        for offset, category in zip(features.offsets, features.categories, strict=True):
            part = slice(offset, offset + category.size)
            shares[part] = np.clip(shrink(found[part], off[part], 1 / category.size, 1 / category.size), 0.0, 1.0)
        trust = MIDDLE_SPREAD**2 / (MIDDLE_SPREAD**2 + float(off[0]) ** 2)
        outline = cls(size, shares, middles, bound_width(variances, off[width:]) * DEVIATIONS, trust)
        if sums.target is None:
            return outline
        first, second = sums.target / float(ONE) / size
        off_target = sums.target_noise / float(ONE) / size
        middle = float(np.clip(shrink(first, off_target, 0.0, MIDDLE_SPREAD), -0.5, 0.5))
        variance = shrink(second - middle**2, off_target, TYPICAL_VARIANCE, TYPICAL_VARIANCE)
        return replace(outline, target_middle=middle, target_width=float(bound_width(variance, off_target)))


@dataclass(frozen=True, eq=False)
class NoisySums:
    """Released column sums and sums of the target, with the standard deviations of their noise, on the grid."""

    moments: Ints
    moment_noises: Floats
    target: Ints | None = None
    target_noise: float = 0.0


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
        shapes: dict[str, tuple[int, ...]] = {
            "moments": (width + len(self.features.numbers),),
            "gradients": (self.settings.steps, self.residuals.outputs, width),
        }
        return shapes | ({"target": (2,)} if self.settings.target_share else {})

    @property
    def moments_norm_squared(self) -> int:
        """How far one record moves the column sums, squared: on the grid, 1 for the intercept and each category, ¼ and a
        sixteenth for each number and its square."""
        numbers = len(self.features.numbers)
        return self.features.grid_norm_squared + numbers * (HALF * HALF >> GRID_BITS) ** 2

    @cached_property
    def weight_bits(self) -> int:
        """The bits of a weight after the binary point."""
        return count_weight_bits(self.features)

    def release(self, rows: Rows, noises: Mapping[str, Gaussian], bits: Bits) -> dict[str, Ints]:
        """Return the noisy column sums and gradient sums. What is computed of rows is integers."""
        prepared = IntegerRows.of(rows)
        released = {"moments": noises["moments"].release(self.sum_columns(prepared), bits)}
        if self.settings.target_share:
            released["target"] = noises["target"].release(sum_target(prepared), bits)
        sums = self.read_sums(released, noises)
        return released | {"gradients": self.release_gradients(prepared, sums, noises["gradients"], bits)}

    def read_sums(self, released: Mapping[str, Ints], noises: Mapping[str, Gaussian]) -> NoisySums:
        """Return released sums with their noise."""
        moments = released["moments"]
        off = np.full(len(moments), float(noises["moments"].sigma))
        if "target" not in released:
            return NoisySums(moments, off)
        return NoisySums(moments, off, released["target"], float(noises["target"].sigma))

    def release_gradients(self, prepared: IntegerRows, sums: NoisySums, noise: Gaussian, bits: Bits) -> Ints:
        """Return the noisy gradient sums along the path that they lead to, given the noisy column sums."""
        path = Path(self, sums, float(noise.sigma))
        standard = prepared.standardise(path.outline.middles, path.outline.widths)
        gradients = np.empty(self.shapes["gradients"], np.int64)
        for step in range(self.settings.steps):
            gradients[step] = noise.release(path.sum_gradients(standard), bits)
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

    def follow(self, sums: NoisySums, gradients: Ints, noises: Mapping[str, Gaussian]) -> "Path":
        """Return the path that the released sums lead along: the same that `release` followed."""
        path = Path(self, sums, float(noises["gradients"].sigma))
        for gradient in gradients:
            path.advance(gradient)
        return path


def sum_target(prepared: IntegerRows) -> Ints:
    """Return Σy and Σy² of a target that is a number, on the grid."""
    target = prepared.target[prepared.present]
    return np.array([target.sum(), (target * target >> GRID_BITS).sum()], np.int64)


TARGET_NORM_SQUARED = HALF * HALF + (HALF * HALF >> GRID_BITS) ** 2
"""How far one record moves them, squared: ¼ and a sixteenth."""


class Path:
    """The weights of a descent, as they follow from released sums: post-processing.

    Weights are those of numbers as the outline standardises them, and of centred categories, x − m, where m are the noisy
    shares; an intercept belongs to the means.
    """

    def __init__(self, descent: Descent, sums: NoisySums, sigma: float) -> None:
        self.outline = outline = Outline.of(descent, sums)
        self.descent, settings = descent, descent.settings
        features, width = descent.features, descent.features.width
        numbers, columns = len(features.numbers), len(features.names)
        self.means = outline.shares
        spread = self.means * (1 - self.means)
        spread[0] = 1.0
        spread[1 : 1 + numbers] = DEVIATIONS**-2.0
        self.spread = spread
        scale = 1.0
        if isinstance(descent.residuals, LinearResiduals):
            scale = outline.target_width
            self.descent = replace(descent, residuals=LinearResiduals(width=scale))
        self.unit = outline.size * float(1 << (RESIDUAL_BITS + GRID_BITS)) / scale  # sums over it are means of gradients
        self.noise = noise = sigma / self.unit  # of a mean gradient, in each step
        overall = noise / settings.steps**0.5  # of the mean over all steps
        curvature = descent.residuals.curvature * spread
        expected = np.full(width, settings.total_effect * scale / max(columns, 1) ** 0.5)
        expected[0] = settings.total_effect * scale
        expected[1 : 1 + numbers] *= DEVIATIONS
        least = overall / expected  # the curvature where noise is as large as what is learnt
        shrinkage = least * np.minimum(least / np.maximum(curvature, MIN_CURVATURE), MAX_SHRINKAGE)
        self.decay = shrinkage
        self.decay[1:] += descent.penalty / outline.size
        self.curvature, self.inverse = curvature, 1 / (curvature + self.decay)
        shape = (descent.residuals.outputs, width)
        self.start = np.zeros(shape)
        self.start[:, 0] = outline.target_middle
        self._centred, self._velocity, self._sum, self._steps = self.start, np.zeros(shape), np.zeros(shape), 0

    def sum_gradients(self, standard: IntegerRows) -> Ints:
        """Return the exact sum of the clipped gradients at the present weights. Standardised rows are private."""
        return self.descent.sum_gradients(standard, self.weights)

    @property
    def weights(self) -> Floats:
        """The weights of the standardised columns, at which the next gradient is computed."""
        return self._uncentre(self._centred)

    def _uncentre(self, centred: Floats) -> Floats:
        weights = centred.copy()
        weights[:, 0] -= centred @ self.means
        return weights

    def _unstandardise(self, centred: Floats) -> Floats:
        """Return weights of the columns as they are declared."""
        weights, numbers = self._uncentre(centred), len(self.outline.middles)
        weights[:, 1 : 1 + numbers] /= self.outline.widths
        weights[:, 0] -= weights[:, 1 : 1 + numbers] @ self.outline.middles
        return weights

    def advance(self, gradient: Ints) -> None:
        """Take one step along a released gradient sum."""
        settings = self.descent.settings
        mean = gradient / self.unit
        centred = mean - mean[:, :1] * self.means
        centred[:, 0] = mean[:, 0]
        pull = centred + self.decay * (self._centred - self.start)
        self._velocity = settings.momentum * self._velocity - settings.learning_rate * self.inverse * pull
        self._centred = self._centred + self._velocity
        self._steps += 1
        if self._steps > settings.steps // 2:
            self._sum = self._sum + self._centred

    @property
    def _average(self) -> Floats:
        return self._sum / (self._steps - self.descent.settings.steps // 2)

    @property
    def average(self) -> Floats:
        """The average of the weights over the second half of the steps, of the columns as they are declared."""
        return self._unstandardise(self._average)

    @property
    def result(self) -> Floats:
        """The average, each column shrunk by what of it noise alone would make: James and Stein's factor."""
        average = self._average
        noises = self.noise**2 * (self._respond(self.curvature) ** 2).sum(axis=0)
        shrunk = average.copy()
        for group, known in self._list_groups():
            found, alone = float((average[:, group] ** 2 / noises[group]).sum()), average[:, group].size
            shrunk[:, group] *= 1 - known * min(alone / found, 1.0) if found > 0 else 1.0
        return self._unstandardise(shrunk)

    def _list_groups(self) -> list[tuple[slice, float]]:
        """The columns whose weights are shrunk together: all numbers, and each category; and how far they are centred.

        Where the means of numbers are not known, a smaller weight would move the mean of the predictions, too.
        """
        features = self.descent.features
        groups = [(slice(at, at + each.size), 1.0) for at, each in zip(features.offsets, features.categories, strict=True)]
        numbers = len(features.numbers)
        return [(slice(1, 1 + numbers), self.outline.trust), *groups] if numbers else groups

    @property
    def errors(self) -> Floats:
        """The standard deviation of the noise in each weight of `average`, given the path that was released."""
        responses, numbers = self._respond(), len(self.outline.middles)
        means = self.means
        own = (responses**2).sum(axis=0) * (1 + means**2)
        own[1 : 1 + numbers] /= self.outline.widths**2
        shared = responses[:, 0] + (responses * means**2).sum(axis=1)
        leaning = responses[:, 1 : 1 + numbers] * self.outline.middles / self.outline.widths
        own[0] = (shared**2).sum() + ((responses * means) ** 2).sum() + (leaning**2).sum()
        spread: Floats = self.noise * np.sqrt(own)
        return spread

    def _respond(self, curvature: Floats | float = 0.0) -> Floats:
        """How far a unit in the gradient of each step moves each centred weight of the average.

        With a curvature, later gradients answer to the weights, and take back a part.
        """
        settings, width = self.descent.settings, self.descent.features.width
        weight, velocity = np.zeros(width), np.zeros(width)
        after = np.empty((settings.steps + 1, width))  # sums of the responses after 0, 1, … steps
        after[0] = 0.0
        for step in range(settings.steps):
            pull = (1.0 if step == 0 else 0.0) + (self.decay + curvature) * weight
            velocity = settings.momentum * velocity - settings.learning_rate * self.inverse * pull
            weight = weight + velocity
            after[step + 1] = after[step] + weight
        first = settings.steps // 2  # weights after this step are averaged
        begun = np.arange(settings.steps)
        summed: Floats = after[settings.steps - begun] - after[np.maximum(first - begun, 0)]
        return summed / (settings.steps - first)
