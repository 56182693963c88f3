"""Naive Bayes: classes by their prior and by each feature on its own. One release of counts or sums, one Gaussian.

**`BinnedNB`** releases one histogram of (class, feature, bin): for each of F features, in how many records of each class it
falls into each bin. Numbers fall into `bins` bins of equal width between their declared bounds, categories into their keys
and "other".

**Proof** of the sensitivity. A record has one class and, of each feature, one bin: it adds 1 to F cells. So one record moves
the histogram by √F, exactly. Replaced, it takes 1 from F cells and adds 1 to F cells, all counts being non-negative: √(2F).
A record whose class is not declared adds nothing. ∎

**`GaussianNB`** releases, for each class, n, Σu and Σ(1 − u²), where u is a number as a part of its half-range from the
middle of its bounds, from −1 to 1. From them follow means and variances.

**Proof.** A record adds (1, u₁ … u_p, 1 − u₁² … 1 − u_p²) to the block of its class. u² + (1 − u²)² = 1 − u²(1 − u²) ≤ 1,
so its squared length is at most 1 + p. (To release Σu² instead would need 1 + 2p.) Replaced within its class, n does not
move and each pair moves by at most 2, as both ends lie in the unit disc; with another class, both lengths add up, as the
blocks are disjoint: max(4p, 2 + 2p) = 4p. On the grid, u is an integer up to 2¹⁵ and 1 − u² is rounded down, which makes no
length larger. With k records of a unit all that is k times as far. ∎ (The variance needs no second query: Σu² = n − Σ(1 −
u²).)

Both follow from the release by post-processing: cells near the noise are shrunk to what they would be if the feature told
nothing, by a term of σ records.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet._numbers import Number, check_int
from discreet.errors import BadParameter
from discreet.learn.charging import FitPlan, NoisyVector, Payer, Released, bound_unit
from discreet.learn.estimator import Declaration, PrivateEstimator, read_classes
from discreet.learn.features import GRID_BITS, HALF, ColumnBounds, Design, Features, Ints, Target
from discreet.learn.records import Records, Rows
from discreet.learn.scoring import Classifying, Floats
from discreet.mechanisms.gaussian import Gaussian
from discreet.noise import Bits
from discreet.query.schema import Key
from discreet.units import Neighbours

BINS = 16
"""Bins of a number, unless another number is given."""

MIN_VARIANCE = 2.0**-12
"""The least variance of a number within a class, in squared half-ranges."""


class BinLayout:
    """Which bin each feature of a row falls into: `bins` for numbers, one for each key and "other" for categories."""

    def __init__(self, features: Features, bins: int) -> None:
        self.features, self.bins = features, bins
        self.sizes = (*(bins for _ in features.numbers), *(each.size for each in features.categories))
        self.offsets = tuple(sum(self.sizes[:place]) for place in range(len(self.sizes)))

    @property
    def width(self) -> int:
        """How many bins all features have together."""
        return sum(self.sizes)

    def find_bins(self, design: Design) -> list[NDArray[np.int64]]:
        """Return, for each feature, the bin of each row. Each depends on its own row alone."""
        steps = design.numbers.astype(np.int64) + HALF
        numbers = np.minimum((steps * self.bins) >> GRID_BITS, self.bins - 1)
        return [*numbers.T, *design.codes.astype(np.int64).T]

    def count_bins(self, rows: Rows, classes: int) -> Ints:
        """Return how many records of each class fall into each bin of each feature."""
        counts = np.zeros((classes, self.width), np.int64)
        for offset, size, found in zip(self.offsets, self.sizes, self.find_bins(rows.design), strict=True):
            cells = (rows.target * size + found)[rows.present]
            counts[:, offset : offset + size] = np.bincount(cells, minlength=classes * size).reshape(classes, size)
        return counts


class BinnedNB(Classifying, PrivateEstimator):
    """Naive Bayes on declared bins and categories: one histogram, fast, and good at a small ε.

    >>> import numpy as np
    >>> from discreet.testing import seeded_bits
    >>> generator = np.random.default_rng(0)
    >>> y = generator.integers(0, 2, 5000)
    >>> X = {"age": 40 + 20 * y + generator.normal(0, 10, 5000), "sex": np.where(y, "F", "M")}
    >>> model = BinnedNB(epsilon=1, delta=1e-6, bounds={"age": (0, 100)}, categories={"sex": ("F", "M")}, classes=(0, 1))
    >>> model.fit(X, y, bits=seeded_bits(1)).predict({"age": [30, 70], "sex": ["M", "F"]}).tolist()
    [0, 1]
    """

    KIND = "classifier"
    NEEDS_EXPECTED = False

    class_count_: Floats
    class_log_prior_: Floats

    def __init__(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number | None = None,
        bounds: ColumnBounds | None = None,
        categories: Mapping[Any, Sequence[Key]] | None = None,
        classes: Sequence[Key] | None = None,
        bins: int = BINS,
        neighbours: Neighbours | str | None = None,
        account: Payer = None,
    ) -> None:
        self.epsilon, self.delta, self.bounds, self.categories = epsilon, delta, bounds, categories
        self.classes, self.bins, self.neighbours, self.account = classes, bins, neighbours, account

    def _read_target(self, records: Records | None) -> Target:
        return read_classes(self.classes, records)

    def _make_layout(self, declared: Declaration) -> BinLayout:
        return BinLayout(declared.features, check_int(self.bins, "bins", 1))

    def _list_vectors(self, declared: Declaration) -> tuple[NoisyVector, ...]:
        features = len(self._make_layout(declared).sizes)
        moved = bound_unit(features, declared.neighbours, declared.max_rows, nonnegative=True)
        return (NoisyVector("counts", moved, Fraction(1)),)

    def _list_shapes(self, declared: Declaration) -> Mapping[str, tuple[int, ...]]:
        return {"counts": (count_classes(declared), self._make_layout(declared).width)}

    def _release(self, declared: Declaration, rows: Rows, noises: Mapping[str, Gaussian], bits: Bits) -> Released:
        counts = self._make_layout(declared).count_bins(rows, count_classes(declared))
        return {"counts": noises["counts"].release(counts, bits)}

    def _show(self, declared: Declaration, plan: FitPlan, released: Released) -> None:
        layout, sigma = self._make_layout(declared), float(plan.noises["counts"].sigma)
        counts = released["counts"].astype(np.float64)
        parts = [counts[:, at : at + size] for at, size in zip(layout.offsets, layout.sizes, strict=True)]
        # every feature counts the records of a class; the sum over B bins has B times the variance
        weights = np.array([1 / size for size in layout.sizes])
        sums = np.stack([part.sum(axis=1) for part in parts])
        size = np.maximum(weights @ sums / weights.sum(), max(sigma, 1.0))
        self.class_count_ = size
        self.class_log_prior_ = np.log(size / size.sum())
        self._layout = layout
        self._tables = [shrink_ratios(part, size, sigma) for part in parts]

    def score_rows(self, design: Design) -> Floats:
        """Return the log-probabilities of the classes, up to a constant of the row: sums of one table entry per feature."""
        scores = np.repeat(self.class_log_prior_[None], design.rows, axis=0)
        for table, found in zip(self._tables, self._layout.find_bins(design), strict=True):
            scores += table[found]
        return scores


def shrink_ratios(counts: Floats, sizes: Floats, sigma: float) -> Floats:
    """Return ln(P(bin | class)/P(bin)) for each bin and class, pulled to 0 where counts are no larger than the noise.

    The ratio is (count + σ)/(expected + σ), where `expected` is what the class would have in the bin if the bin told
    nothing.
    """
    pooled = np.maximum(counts.sum(axis=0), 0.0)
    expected = sizes[:, None] * (pooled / max(float(pooled.sum()), 1.0))
    floor = max(sigma, 0.5)
    ratios: Floats = np.log(np.maximum(counts + floor, floor / 2) / (expected + floor))
    return ratios.T.copy()


class GaussianNB(Classifying, PrivateEstimator):
    """Naive Bayes with a normal distribution of each number within each class.

    Attributes are those of scikit-learn: `theta_` (means), `var_`, `class_prior_`, `class_count_`, in the units of the data.

    >>> import numpy as np
    >>> from discreet.testing import seeded_bits
    >>> generator = np.random.default_rng(0)
    >>> y = generator.integers(0, 2, 5000)
    >>> X = np.column_stack([40 + 20 * y + generator.normal(0, 10, 5000)])
    >>> model = GaussianNB(epsilon=1, delta=1e-6, bounds=[(0, 100)], classes=(0, 1)).fit(X, y, bits=seeded_bits(1))
    >>> model.predict([[30], [70]]).tolist(), model.theta_.round().tolist()
    ([0, 1], [[40.0], [60.0]])
    """

    KIND = "classifier"
    NEEDS_EXPECTED = False

    class_count_: Floats
    class_prior_: Floats
    theta_: Floats
    var_: Floats

    def __init__(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number | None = None,
        bounds: ColumnBounds | None = None,
        classes: Sequence[Key] | None = None,
        neighbours: Neighbours | str | None = None,
        account: Payer = None,
    ) -> None:
        self.epsilon, self.delta, self.bounds = epsilon, delta, bounds
        self.classes, self.neighbours, self.account = classes, neighbours, account

    categories = None

    def _read_target(self, records: Records | None) -> Target:
        return read_classes(self.classes, records)

    def _list_vectors(self, declared: Declaration) -> tuple[NoisyVector, ...]:
        numbers = require_numbers(declared, "a normal distribution needs numbers", "use BinnedNB, or leave them out")
        moved = bound_sums(numbers, declared.neighbours, declared.max_rows)
        return (NoisyVector("sums", moved, Fraction(1)),)

    def _list_shapes(self, declared: Declaration) -> Mapping[str, tuple[int, ...]]:
        return {"sums": (count_classes(declared), 1 + 2 * len(declared.features.numbers))}

    def _release(self, declared: Declaration, rows: Rows, noises: Mapping[str, Gaussian], bits: Bits) -> Released:
        vectors = list_sums(rows.design.numbers)
        sums = np.zeros((count_classes(declared), vectors.shape[1]), np.int64)
        np.add.at(sums, rows.target[rows.present], vectors[rows.present])
        return {"sums": noises["sums"].release(sums, bits)}

    def _show(self, declared: Declaration, plan: FitPlan, released: Released) -> None:
        noise = float(plan.noises["sums"].sigma) / HALF  # in records
        size, means, variances = read_sums(released["sums"] / HALF, noise)
        self.class_count_, self.class_prior_ = size, size / size.sum()
        self._means, self._variances = means, variances
        middle = np.array([float(each.middle) for each in declared.features.numbers])
        half = np.array([float((each.upper - each.lower) / 2) for each in declared.features.numbers])
        self.theta_, self.var_ = middle + means * half, variances * half**2

    def score_rows(self, design: Design) -> Floats:
        """Return the log-densities of the classes, up to a constant of the row, summed feature by feature."""
        scores = np.repeat(np.log(self.class_prior_)[None], design.rows, axis=0)
        for place in range(design.numbers.shape[1]):
            values = design.numbers[:, place].astype(np.float64) * (1 / HALF)
            variances = self._variances[:, place]
            offsets = values[:, None] - self._means[None, :, place]
            scores += -0.5 * np.log(variances) - (offsets * offsets) * (0.5 / variances)
        return scores


def count_classes(declared: Declaration) -> int:
    """Return how many classes are declared."""
    return len(declared.target.keys)  # type: ignore[union-attr]


def require_numbers(declared: Declaration, reason: str, hint: str) -> int:
    """Return how many columns of numbers there are, and refuse categories."""
    if declared.features.categories:
        raise BadParameter("categories", repr(declared.features.categories[0].name), reason, hint)
    return len(declared.features.numbers)


def bound_sums(numbers: int, neighbours: Neighbours, max_rows: int) -> Fraction:
    """Return how far one unit moves (n, Σu, Σ(1 − u²)) of disjoint classes on the grid, squared: see **Proof**.

    >>> [int(bound_sums(3, each, 1)) >> 30 for each in (Neighbours.ADD_REMOVE, Neighbours.REPLACE)]
    [4, 12]
    """
    lengths = 1 + numbers if neighbours is Neighbours.ADD_REMOVE else max(4 * numbers, 2 + 2 * numbers)
    return Fraction(lengths * HALF * HALF * max_rows * max_rows)


def list_sums(numbers: NDArray[np.int32]) -> Ints:
    """Return what each row adds to (n, Σu, Σ(1 − u²)) of its class, on the grid of 2⁻¹⁵."""
    steps = numbers.astype(np.int64)
    rests = (HALF * HALF - steps * steps) >> (GRID_BITS - 1)
    return np.concatenate([np.full((len(steps), 1), HALF, np.int64), steps, rests], axis=1)


def read_sums(sums: Floats, noise: float) -> tuple[Floats, Floats, Floats]:
    """Return sizes, means and variances of classes from (n, Σu, Σ(1 − u²)), shrunk to those of all classes together.

    `noise` is the deviation of each sum, in records; a class that is not larger than it has the means of all.
    """
    width = (sums.shape[1] - 1) // 2
    floor = max(noise, 0.5)
    size = np.maximum(sums[:, 0], floor)
    every = max(float(sums[:, 0].sum()), floor)
    overall = np.clip(sums[:, 1 : 1 + width].sum(axis=0) / every, -1.0, 1.0)
    squares = np.clip(1 - sums[:, 1 + width :].sum(axis=0) / every, 0.0, 1.0)
    spread = np.maximum(squares - overall**2, MIN_VARIANCE)
    means = np.clip((sums[:, 1 : 1 + width] + floor * overall) / (size[:, None] + floor), -1.0, 1.0)
    second = ((size[:, None] - sums[:, 1 + width :]) + floor * (spread + means**2)) / (size[:, None] + floor)
    variances = np.clip(second - means**2, np.maximum(spread / 64, MIN_VARIANCE), 1.0)
    return size, means, variances
