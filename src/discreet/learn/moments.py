"""Moments: n, Σx and Σxxᵀ of all declared columns in one release, from which regressions, covariances and components follow.

**What is released.** Numbers are u, parts of their half-range from the middle of their bounds, from −1 to 1; categories are
one column of 0 and 1 for each key and for "other". With F features (numbers and categories), one vector:

- n; Σu of each number and Σ(1 − u²); how many records each key of each category has;
- Σuv of each two numbers; Σu within each key, for each number and category; how many records each two keys of two
  categories have.

That is the upper triangle of Σxxᵀ, with 1 − u² on the diagonal, and without what follows from the rest: one category's keys
exclude each other, and their squares are themselves.

**Proof** of the sensitivity. A record adds 1 to n; for a number (u, 1 − u²), of squared length 1 − u²(1 − u²) ≤ 1; 1 for a
category; and at most 1 for each two features, since of all keys only one is met. So its squared length is at most N = 1 + F
+ F(F − 1)/2. (The upper triangle with u² on the diagonal has (R⁴ + Σx⁴)/2 = N + F.)

Replaced, it moves by ‖v − w‖² = ‖v‖² + ‖w‖² − 2⟨v, w⟩. Let zᵢ be uᵢuᵢ′ for a number, and 1 or 0 for a category that is the
same or not. Then ⟨v, w⟩ ≥ 1 + Σzᵢ + Σ_{i<j} zᵢzⱼ = ((1 + Σzᵢ)² + 1 − Σzᵢ²)/2 ≥ (1 − F)/2, because |zᵢ| ≤ 1 and 1 − u² is
never negative. So ‖v − w‖² ≤ 2N + F − 1. A unit with k records moves all that k times as far: its records are replaced one
after the other, or removed, which is shorter. ∎

**Integers.** On the grid, u is an integer up to 2¹⁵ and 1 is 2¹⁵; products are taken of integers, so every entry is an
integer on the grid of 2⁻³⁰. Products of matrices are taken in doubles over at most 2²¹ rows, where all partial sums are
integers below 2⁵³: exact in any order, on any number of threads.

Everything below `Moments` is post-processing, and free: `covariance`, `fit_ridge` for any column as the target (AdaSSP
[Wan18]), `PCA.from_moments`. `PCA` and `StandardScaler` with their own `epsilon=` release only what they need.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import log, sqrt
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from discreet._numbers import Number, check_int
from discreet.accounting.cost import Cost
from discreet.errors import BadParameter
from discreet.events import NO_EVENT
from discreet.learn.charging import FitPlan, NoisyVector, Payer, Released
from discreet.learn.estimator import Declaration, PrivateEstimator, refuse_options
from discreet.learn.features import HALF, ColumnBounds, Design, Features, Ints, Name, NumericFeature
from discreet.learn.naive_bayes import bound_sums, list_sums, read_sums, require_numbers
from discreet.learn.records import Rows, to_records
from discreet.learn.scoring import Floats
from discreet.mechanisms.gaussian import Gaussian
from discreet.noise import Bits
from discreet.query.schema import Key, suggest_name
from discreet.units import Neighbours

MAX_MOMENT_WIDTH = 2_000
"""Columns of a design whose products are released: two million numbers."""

CHUNK = 1 << 21
"""Rows whose products are summed at a time, in doubles that hold integers below 2⁵²."""

UNIT = HALF * HALF
"""1 on the grid of products."""


def bound_products(features: int, neighbours: Neighbours, max_rows: int = 1) -> Fraction:
    """Return how far one unit moves the moments of so many features on the grid, squared: see **Proof**.

    >>> [int(bound_products(12, each)) // UNIT**2 for each in (Neighbours.ADD_REMOVE, Neighbours.REPLACE)]
    [79, 169]
    """
    length = 1 + features + features * (features - 1) // 2
    moved = length if neighbours is Neighbours.ADD_REMOVE else 2 * length + features - 1
    return Fraction(moved * UNIT * UNIT * max_rows * max_rows)


@dataclass(frozen=True)
class MomentLayout:
    """Which entries of the upper triangle are released, and how a record adds to them."""

    features: Features

    def __post_init__(self) -> None:
        if self.features.width > MAX_MOMENT_WIDTH:
            raise BadParameter(
                "categories", f"{self.features.width:,} columns", f"products of at most {MAX_MOMENT_WIDTH:,} are released",
                "declare fewer keys or columns",
            )  # fmt: skip

    @property
    def entries(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows and columns of the entries that are released, in the upper triangle of the design's columns."""
        groups = self._group_columns()
        lines, columns = np.triu_indices(self.features.width)
        follows = (groups[lines] == groups[columns]) & (groups[lines] >= 0)  # two keys of one category, or one twice
        return lines[~follows], columns[~follows]

    def _group_columns(self) -> NDArray[np.intp]:
        """For each column, which category it is a key of; −1 for the intercept and for numbers."""
        groups = np.full(self.features.width, -1, np.intp)
        for place, (offset, each) in enumerate(zip(self.features.offsets, self.features.categories, strict=True)):
            groups[offset : offset + each.size] = place
        return groups

    def sum_products(self, design: Design, present: NDArray[np.bool_]) -> Ints:
        """Return the moments of the rows that are present: integers, exactly."""
        width, numbers = self.features.width, len(self.features.numbers)
        total = np.zeros((width, width), np.int64)
        for part in design.iter_chunks(CHUNK):
            kept = Design(self.features, design.numbers[part][present[part]], design.codes[part][present[part]])
            matrix = kept.to_matrix(np.float64)
            matrix[:, 0] = HALF
            matrix[:, 1 + numbers :] *= 0.5  # 1 is 2¹⁵ here, as for numbers
            total += (matrix.T @ matrix).astype(np.int64)
        squares = np.arange(1, 1 + numbers)
        total[squares, squares] = total[0, 0] - total[squares, squares]
        return total[self.entries]

    def to_matrix(self, released: Ints) -> Floats:
        """Return Σxxᵀ with noise, symmetric, from what was released."""
        width, numbers = self.features.width, len(self.features.numbers)
        matrix = np.zeros((width, width))
        matrix[self.entries] = released / float(UNIT)
        squares = np.arange(1, 1 + numbers)
        matrix[squares, squares] = matrix[0, 0] - matrix[squares, squares]
        keys = np.arange(1 + numbers, width)
        matrix[keys, keys] = matrix[0, keys]
        symmetric: Floats = matrix + np.triu(matrix, 1).T
        return symmetric


class ProductsRelease(PrivateEstimator):
    """What releases the moments of all declared columns."""

    NEEDS_TARGET = False
    NEEDS_EXPECTED = False

    def _list_vectors(self, declared: Declaration) -> tuple[NoisyVector, ...]:
        MomentLayout(declared.features)
        moved = bound_products(len(declared.features.names), declared.neighbours, declared.max_rows)
        return (NoisyVector("products", moved, Fraction(1)),)

    def _list_shapes(self, declared: Declaration) -> Mapping[str, tuple[int, ...]]:
        return {"products": MomentLayout(declared.features).entries[0].shape}

    def _release(self, declared: Declaration, rows: Rows, noises: Mapping[str, Gaussian], bits: Bits) -> Released:
        exact = MomentLayout(declared.features).sum_products(rows.design, rows.present)
        return {"products": noises["products"].release(exact, bits)}


class Moments(ProductsRelease):
    """A reusable release: n, sums, and products of all declared columns. What follows from it is free.

    >>> import numpy as np
    >>> from discreet.testing import seeded_bits
    >>> generator = np.random.default_rng(0)
    >>> age = generator.uniform(20, 60, 20_000)
    >>> rows = {"age": age, "pay": 1000 + 50 * age + generator.normal(0, 200, 20_000)}
    >>> moments = Moments(epsilon=1, delta=1e-6, bounds={"age": (20, 60), "pay": (0, 5000)}).fit(rows, bits=seeded_bits(1))
    >>> moments.means_.round(-2).tolist(), moments.covariance().shape
    ([0.0, 3000.0], (2, 2))
    >>> model = moments.fit_ridge("pay")
    >>> bool(abs(model.coef_[0] - 50) < 2)
    True
    """

    matrix_: Floats
    """Σxxᵀ with noise, of the columns of the design: the intercept, numbers in half-ranges from the middle, categories."""
    noise_: float
    """The standard deviation of the noise of each of its entries."""

    def __init__(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number | None = None,
        bounds: ColumnBounds | None = None,
        categories: Mapping[Any, Sequence[Key]] | None = None,
        neighbours: Neighbours | str | None = None,
        account: Payer = None,
    ) -> None:
        self.epsilon, self.delta, self.bounds, self.categories = epsilon, delta, bounds, categories
        self.neighbours, self.account = neighbours, account

    def _show(self, declared: Declaration, plan: FitPlan, released: Released) -> None:
        self.matrix_ = MomentLayout(declared.features).to_matrix(released["products"])
        self.noise_ = float(plan.noises["products"].sigma) / UNIT

    @property
    def size_(self) -> float:
        """The noisy number of records, at least 1."""
        return max(float(self._require_fitted().matrix_[0, 0]), 1.0)

    @property
    def means_(self) -> Floats:
        """The noisy means of the numbers, in the units of the data, and within their bounds."""
        scales = list_scales(self._declared_features)
        return scales.middles + scales.halves * self._find_means()[1 : 1 + len(scales.middles)]

    def _find_means(self) -> Floats:
        self._require_fitted()
        numbers = len(self._declared_features.numbers)
        means: Floats = self.matrix_[0] / self.size_
        means[1 : 1 + numbers] = np.clip(means[1 : 1 + numbers], -1, 1)
        means[1 + numbers :] = np.clip(means[1 + numbers :], 0, 1)
        return means

    def _find_covariance(self) -> Floats:
        """The covariance of the columns of the design, without the intercept, on the scale of the release."""
        means = self._find_means()[1:]
        covariance: Floats = self.matrix_[1:, 1:] / self.size_ - np.outer(means, means)
        return covariance

    def covariance(self, *, scaled: bool = False) -> Floats:
        """Return the covariance matrix of the numbers, in the units of the data; scaled, in half-ranges of the bounds.

        It is made positive semidefinite: negative eigenvalues, which only noise makes, become 0.
        """
        scales = list_scales(self._require_fitted()._declared_features)
        numbers = len(scales.halves)
        found = drop_negative(self._find_covariance()[:numbers, :numbers])
        return found if scaled else found * np.outer(scales.halves, scales.halves)

    def fit_ridge(
        self, target: Name, features: Sequence[Name] | None = None, *, penalty: float | None = None
    ) -> "MomentsRidge":
        """Return the linear regression of one declared number on others: post-processing, so it costs nothing.

        Without `penalty` it is the least that makes the noisy matrix well conditioned [Wan18, AdaSSP], with the smallest
        eigenvalue read off the noisy matrix. `penalty` is in records, on the scale of half-ranges.
        """
        declared = self._require_fitted()._declared_features
        places = [each.name for each in declared.numbers]
        if target not in places:
            hint = suggest_name(str(target), map(str, places))
            raise BadParameter("target", repr(target), "no column with declared bounds has this name", hint)
        chosen = [name for name in declared.names if name != target] if features is None else [*features]
        for name in chosen:
            if name == target:
                raise BadParameter("features", repr(name), "it is the target", "leave it out")
            if name not in declared.names:
                hint = suggest_name(name, [str(each) for each in declared.names if each != target])
                raise BadParameter("features", repr(name), "not a declared column", hint)
        kept = Features(
            tuple(each for each in declared.numbers if each.name in chosen),
            tuple(each for each in declared.categories if each.name in chosen),
        )
        columns = [place for name in kept.names for place in find_columns(declared, name)]
        at = find_columns(declared, target)[0]
        means, covariance = self._find_means(), self._find_covariance()
        inner = covariance[np.ix_([c - 1 for c in columns], [c - 1 for c in columns])]
        across = covariance[[c - 1 for c in columns], at - 1]
        noise = self.noise_ / self.size_
        used = choose_penalty(inner, noise) if penalty is None else penalty / self.size_
        weights: Floats = np.linalg.lstsq(inner + used * np.eye(len(columns)), across, rcond=None)[0].astype(np.float64)
        goal = declared.numbers[at - 1]
        intercept = means[at] - float(weights @ means[columns])
        return MomentsRidge(kept, goal, weights, intercept, used * self.size_)


def choose_penalty(matrix: Floats, noise: float) -> float:
    """Return the penalty that lifts the smallest eigenvalue of a noisy matrix above the noise, and no more.

    A symmetric matrix of d columns with independent normal entries of deviation s has eigenvalues within about 2s√d.
    """
    width = len(matrix)
    spread = noise * sqrt(width * log(2 * max(width, 2) ** 2 / 0.05))
    return float(max(0.0, spread - np.linalg.eigvalsh(matrix)[0]))


@dataclass(frozen=True, eq=False)
class MomentsRidge:
    """A linear regression that follows from released moments."""

    features: Features
    target: NumericFeature
    weights: Floats  # of the columns of the design without the intercept, all in half-ranges
    offset: float
    penalty: float

    @property
    def coef_(self) -> Floats:
        """The coefficients in the units of the data: of numbers, then of each key and "other" of each category."""
        scales = list_scales(self.features)
        per_unit = np.concatenate([1 / scales.halves, np.ones(len(self.weights) - len(scales.halves))])
        coefficients: Floats = self.weights * per_unit * self._half
        return coefficients

    @property
    def intercept_(self) -> float:
        """The intercept in the units of the data."""
        scales = list_scales(self.features)
        shift = float(self.coef_[: len(scales.middles)] @ scales.middles)
        return float(self.target.middle) + self.offset * self._half - shift

    @property
    def _half(self) -> float:
        return float((self.target.upper - self.target.lower) / 2)

    def predict(self, X: Any) -> Floats:
        """Return predicted numbers for rows with the columns of the regression, within the declared bounds of the target."""
        half = self._half
        predicted: Floats = float(self.target.middle) + half * self.score_rows(self.features.encode(X))[:, 0]
        return predicted

    def score_rows(self, design: Design) -> Floats:
        """Return the predicted numbers in half-ranges, summed column by column."""
        return score_linearly(design, self.weights, self.offset)


def score_linearly(design: Design, weights: Floats, offset: float) -> Floats:
    """Return offset + Σ weight·column for each row, clamped to ±1: element by element, in the order of the columns."""
    numbers = design.numbers.shape[1]
    scores = np.full(design.rows, offset)
    for place in range(numbers):
        scores += design.numbers[:, place] * (weights[place] / HALF)
    for place, start in enumerate(design.features.offsets):
        scores += weights[start - 1 + design.codes[:, place].astype(np.intp)]
    clamped: Floats = np.clip(scores, -1, 1)[:, None]
    return clamped


@dataclass(frozen=True)
class Scales:
    """Middles and half-ranges of the declared numbers."""

    middles: Floats
    halves: Floats


def list_scales(features: Features) -> Scales:
    """Return the middles and the half-ranges of the declared numbers."""
    return Scales(
        np.array([float(each.middle) for each in features.numbers]),
        np.array([float((each.upper - each.lower) / 2) for each in features.numbers]),
    )


def find_columns(features: Features, name: Name) -> list[int]:
    """Return the columns of the design that a declared column has."""
    for place, number in enumerate(features.numbers):
        if number.name == name:
            return [1 + place]
    for offset, category in zip(features.offsets, features.categories, strict=True):
        if category.name == name:
            return [*range(offset, offset + category.size)]
    raise AssertionError(f"{name!r} is not declared")


def drop_negative(matrix: Floats) -> Floats:
    """Return the nearest positive semidefinite matrix: negative eigenvalues become 0.

    >>> drop_negative(np.diag([2.0, -1.0])).tolist()
    [[2.0, 0.0], [0.0, 0.0]]
    """
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    kept: Floats = (vectors * np.maximum(values, 0)) @ vectors.T
    return kept


class PCA(ProductsRelease):
    """Principal components of declared numbers, from their noisy moments [DTTZ14].

    `scaled` computes them of columns in half-ranges of their bounds, so that no column dominates by its unit.

    >>> import numpy as np
    >>> from discreet.testing import seeded_bits
    >>> generator = np.random.default_rng(0)
    >>> common = generator.normal(0, 1, 10_000)
    >>> X = np.column_stack([common + generator.normal(0, 0.1, 10_000), common + generator.normal(0, 0.1, 10_000)])
    >>> model = PCA(1, epsilon=1, delta=1e-6, bounds=(-4, 4)).fit(X, bits=seeded_bits(1))
    >>> np.abs(model.components_).round(1).tolist(), model.transform([[0, 0]]).shape
    ([[0.7, 0.7]], (1, 1))
    """

    KIND = "transformer"

    components_: Floats
    explained_variance_: Floats
    explained_variance_ratio_: Floats
    mean_: Floats

    def __init__(
        self,
        n_components: int | None = None,
        *,
        epsilon: Number | None = None,
        delta: Number | None = None,
        bounds: ColumnBounds | None = None,
        scaled: bool = False,
        neighbours: Neighbours | str | None = None,
        account: Payer = None,
    ) -> None:
        self.n_components, self.scaled = n_components, scaled
        self.epsilon, self.delta, self.bounds = epsilon, delta, bounds
        self.neighbours, self.account = neighbours, account

    categories = None

    def _count_components(self, declared: Features) -> int:
        numbers = len(declared.numbers)
        wanted = numbers if self.n_components is None else check_int(self.n_components, "n_components", 1)
        if wanted > numbers:
            raise BadParameter("n_components", wanted, f"there are {numbers} columns", f"take at most {numbers}")
        return wanted

    def _list_vectors(self, declared: Declaration) -> tuple[NoisyVector, ...]:
        require_numbers(declared, "components are those of numbers", "leave them out")
        self._count_components(declared.features)
        return super()._list_vectors(declared)

    def _show(self, declared: Declaration, plan: FitPlan, released: Released) -> None:
        matrix = MomentLayout(declared.features).to_matrix(released["products"])
        size = max(float(matrix[0, 0]), 1.0)
        means = np.clip(matrix[0, 1:] / size, -1, 1)
        self._set_components(declared.features, means, matrix[1:, 1:] / size - np.outer(means, means))

    @classmethod
    def from_moments(cls, moments: Moments, n_components: int | None = None, *, scaled: bool = False) -> "PCA":
        """Return the components of the numbers of released moments: post-processing, which costs nothing."""
        model = cls(n_components, epsilon=moments.epsilon, delta=moments.delta, bounds=moments.bounds, scaled=scaled)
        declared = moments._require_fitted()._declared_features
        numbers = len(declared.numbers)
        model._keep(
            Declaration(None, Features(declared.numbers, ()), None, None, Neighbours.ADD_REMOVE, 1), moments._fitted
        )  # the event is that of the moments
        means, covariance = moments._find_means()[1 : 1 + numbers], moments._find_covariance()[:numbers, :numbers]
        model._set_components(Features(declared.numbers, ()), means, covariance)
        return model

    def _set_components(self, features: Features, means: Floats, covariance: Floats) -> None:
        scales = list_scales(features)
        self._units = np.ones(len(means)) if not self.scaled else scales.halves
        factors = np.ones(len(means)) if self.scaled else scales.halves
        values, vectors = np.linalg.eigh(covariance * np.outer(factors, factors))
        order = np.argsort(values)[::-1]
        values, vectors = np.maximum(values[order], 0), vectors[:, order]
        signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(len(means))])
        kept = self._count_components(features)
        self.components_ = (vectors * signs).T[:kept]
        self.explained_variance_ = values[:kept]
        self.explained_variance_ratio_ = values[:kept] / max(float(values.sum()), 1e-300)
        self.mean_ = scales.middles + scales.halves * means

    def transform(self, X: Any) -> Floats:
        """Return the components of rows, which are the caller's own. Values are clamped to the declared bounds."""
        decoded = decode_numbers(self._encode(X))
        transformed: Floats = ((decoded - self.mean_) / self._units) @ self.components_.T
        return transformed

    def inverse_transform(self, Z: Any) -> Floats:
        """Return rows with these components."""
        rows: Floats = self._require_fitted().mean_ + (np.asarray(Z, float) @ self.components_) * self._units
        return rows

    def fit_transform(self, X: Any, y: Any = None, **options: Any) -> Floats:
        """Fit, for one debit, and return the components of the rows: they are the private rows themselves, transformed."""
        return self.fit(X, None, **options).transform(X)


def decode_numbers(design: Design) -> Floats:
    """Return the numbers of a design in the units of the data."""
    columns = [each.decode(design.numbers[:, place]) for place, each in enumerate(design.features.numbers)]
    return np.column_stack(columns)


class StandardScaler(PrivateEstimator):
    """Columns shifted and scaled to a common width.

    Without `epsilon` they are scaled by their declared bounds, to −1 … 1: that costs nothing, and suffices for most models.
    With it, noisy means and standard deviations are released, and `bounds_` says where the bounds of the columns end up,
    for the next step of a pipeline.

    **Proof** of the sensitivity: as for one class of `GaussianNB`, √(1 + p), and 2√p if a record is replaced.

    >>> StandardScaler(bounds=[(0, 100)]).fit([[30], [40]]).transform([[75]]).tolist()
    [[0.5]]
    """

    KIND = "transformer"
    NEEDS_TARGET = False
    NEEDS_EXPECTED = False

    mean_: Floats
    scale_: Floats
    bounds_: list[tuple[float, float]]

    def __init__(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number | None = None,
        bounds: ColumnBounds | None = None,
        neighbours: Neighbours | str | None = None,
        account: Payer = None,
    ) -> None:
        self.epsilon, self.delta, self.bounds = epsilon, delta, bounds
        self.neighbours, self.account = neighbours, account

    categories = None

    def fit(self, X: Any, y: Any = None, **options: Any) -> Self:
        """Fit by the declared bounds, or, with `epsilon`, by noisy sums for one debit."""
        if self.epsilon is not None:
            return super().fit(X, None, **options)
        refuse_options({name: each for name, each in options.items() if name not in ("bits", "id")})
        records = to_records(X)
        declared = self._declare(records)
        records.check(declared.features, None)
        require_numbers(declared, "only numbers are scaled", "leave them out")
        self._declared_features, self._declared_target = declared.features, None
        self.event_ = NO_EVENT
        vars(self).pop("cost_", None)
        self._keep_names(declared.features.names)
        scales = list_scales(declared.features)
        self._set_scales(declared.features, scales.middles, scales.halves)
        return self

    @property
    def cost(self) -> Cost | None:  # type: ignore[override]
        """What a fit will cost; None by the declared bounds, which costs nothing."""
        return None if self.epsilon is None else self.plan.cost

    def _list_vectors(self, declared: Declaration) -> tuple[NoisyVector, ...]:
        numbers = require_numbers(declared, "only numbers are scaled", "leave them out")
        return (NoisyVector("sums", bound_sums(numbers, declared.neighbours, declared.max_rows), Fraction(1)),)

    def _list_shapes(self, declared: Declaration) -> Mapping[str, tuple[int, ...]]:
        return {"sums": (1, 1 + 2 * len(declared.features.numbers))}

    def _release(self, declared: Declaration, rows: Rows, noises: Mapping[str, Gaussian], bits: Bits) -> Released:
        sums = list_sums(rows.design.numbers).sum(axis=0, keepdims=True)
        return {"sums": noises["sums"].release(sums, bits)}

    def _show(self, declared: Declaration, plan: FitPlan, released: Released) -> None:
        noise = float(plan.noises["sums"].sigma) / HALF
        _, means, variances = read_sums(released["sums"] / HALF, noise)
        scales = list_scales(declared.features)
        self._set_scales(declared.features, scales.middles + scales.halves * means[0], scales.halves * np.sqrt(variances[0]))

    def _set_scales(self, features: Features, means: Floats, widths: Floats) -> None:
        self.mean_, self.scale_ = means, widths
        edges = [(float(each.lower), float(each.upper)) for each in features.numbers]
        self.bounds_ = [
            ((low - mean) / width, (high - mean) / width)
            for (low, high), mean, width in zip(edges, means, widths, strict=True)
        ]

    def transform(self, X: Any) -> Floats:
        """Return scaled rows, which are the caller's own. Values are clamped to the declared bounds."""
        scaled: Floats = (decode_numbers(self._encode(X)) - self.mean_) / self.scale_
        return scaled

    def inverse_transform(self, Z: Any) -> Floats:
        """Return rows in the units of the data."""
        rows: Floats = np.asarray(Z, float) * self._require_fitted().scale_ + self.mean_
        return rows

    def fit_transform(self, X: Any, y: Any = None, **options: Any) -> Floats:
        """Fit, and return the scaled rows: they are the private rows themselves, transformed."""
        return self.fit(X, None, **options).transform(X)
