"""The additive model: one curve for each column, added up. Curves can be read, and each has error bars.

**Theory of operation.** Every number falls in one of 256 bins of equal width over its declared bounds, every category is a
bin of its own. A fit releases

1. *counts* of all bins of all columns at once. Neighbouring bins of a number are then merged to a few that hold about as
   many records each: that looks at noisy counts alone, so it is free;
2. *sums of residuals* of all merged bins of all columns at once, `steps` times, with the descent of `descent`: a curve is
   learnt for each bin at a rate that follows from its noisy count.

**Proof** of the sensitivity. A record is in one bin of each of F columns and counts once in all, so it changes 1 + F counts
by one: √(1 + F). Its residual, clipped, is added to the same cells: `descent` has the proof, with rows that are 0 and 1.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MethodType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet._numbers import Number, nearest_float
from discreet.errors import BadParameter
from discreet.learn.charging import FitPlan, NoisyVector, Payer, Released, bound_unit
from discreet.learn.descent import (
    RESIDUAL_BITS,
    Descent,
    Floats,
    IntegerRows,
    NoisySums,
    Settings,
    sum_target,
)
from discreet.learn.estimator import Declaration, PrivateEstimator, read_classes, read_target_bounds
from discreet.learn.features import (
    GRID_BITS,
    HALF,
    ONE,
    OTHER,
    CategoryFeature,
    Codes,
    ColumnBounds,
    Design,
    Features,
    Ints,
    NumericFeature,
    Target,
)
from discreet.learn.linear import ClassifierMixin, choose_residuals, list_descent_vectors, make_settings, multiply_design
from discreet.learn.records import Records, Rows
from discreet.learn.scoring import score_linear_model
from discreet.mechanisms.gaussian import Gaussian
from discreet.noise import Bits
from discreet.query.schema import Key
from discreet.units import Neighbours
from discreet.vega import Chart

BIN_BITS = 8
BINS = 1 << BIN_BITS
"""How many bins a number has before they are merged."""

COUNTS_SHARE = Fraction(1, 10)
"""The share of μ² for the counts."""

MAX_MERGED = 24
"""The most bins of a number, after they are merged."""

MIN_MERGED = 4
"""The fewest."""

BIN_NOISE = 16.0
"""How much larger the curvature of a merged bin is than that at which noise is as large as what is learnt."""


def to_bins(steps: Codes) -> Codes:
    """Return the bin of numbers on the grid.

    >>> to_bins(np.array([-HALF, -1, 0, HALF], np.int32)).tolist()
    [0, 127, 128, 255]
    """
    bins: Codes = np.minimum((steps + HALF) >> (GRID_BITS - BIN_BITS), BINS - 1).astype(np.int32)
    return bins


def bin_features(features: Features) -> Features:
    """Return the columns as categories: numbers by their bins. A category's last key is "other", and a number has none."""
    numbers = tuple(CategoryFeature(each.name, tuple(range(BINS - 1))) for each in features.numbers)
    return Features((), (*numbers, *features.categories))


def merge_bins(counts: Floats, noise: float, bins: int) -> Ints:
    """Return for each bin the merged bin that it belongs to: about so many, which hold about as many records each.

    Each bin counts for a part of the noise more, so that where noise exceeds the counts, merged bins are equally wide.

    >>> merge_bins(np.array([5.0, 1.0, 4.0, 0.0, 5.0, 5.0]), 0.0, 4).tolist()
    [0, 0, 1, 1, 2, 3]
    """
    held = np.cumsum(np.maximum(counts, 0.0) + noise / 4 + 1e-9)
    places = np.minimum((held - held[0] / 2) / held[-1] * bins, bins - 1).astype(np.int64)
    return np.unique(places, return_inverse=True)[1].astype(np.int64)


def choose_bins(settings: Settings, columns: int, curvature: float, size: float, sigma: float) -> int:
    """Return how many merged bins a number has: as many as the noise of the gradients lets the model learn.

    `sigma` is that of a gradient sum, and `size` the noisy number of records.
    """
    noise = sigma / (size * 2.0 ** (RESIDUAL_BITS + GRID_BITS)) / settings.steps**0.5
    effect = settings.total_effect / columns**0.5
    return int(min(max(curvature * effect / (BIN_NOISE * noise), MIN_MERGED), MAX_MERGED))


@dataclass(frozen=True)
class Merged:
    """The bins that a fit learns, found from noisy counts."""

    features: Features  # all columns, by their bins
    maps: tuple[Ints, ...]  # for each column, from a bin to a merged one
    counts: Ints  # of all merged bins, on the grid of column sums
    noises: Floats  # their standard deviations

    @classmethod
    def of(cls, binned: Features, numbers: int, counts: Ints, noise: float, bins: int) -> "Merged":
        """Merge the bins of numbers; keep the categories."""
        maps = [
            merge_bins(counts[offset : offset + category.size].astype(np.float64), noise, bins)
            if place < numbers
            else np.arange(category.size)
            for place, (offset, category) in enumerate(zip(binned.offsets, binned.categories, strict=True))
        ]
        merged = [np.zeros(int(each.max()) + 1, np.int64) for each in maps]
        for place, offset in enumerate(binned.offsets):
            np.add.at(merged[place], maps[place], counts[offset : offset + binned.categories[place].size])
        kept = tuple(
            CategoryFeature(each.name, tuple(range(max(len(sums) - 1, 1))))
            for each, sums in zip(binned.categories, merged, strict=True)
        )
        padded = [np.pad(each, (0, category.size - len(each))) for each, category in zip(merged, kept, strict=True)]
        joined = [np.bincount(each, minlength=category.size) for each, category in zip(maps, kept, strict=True)]
        noises = noise * np.sqrt(np.concatenate([[1], *joined])) * ONE
        return cls(Features((), kept), tuple(maps), np.concatenate([counts[:1], *padded]) * ONE, noises)

    def read_sums(self, released: Mapping[str, Ints], noises: Mapping[str, Gaussian]) -> NoisySums:
        """Return the noisy counts, and the sums of a target that is a number."""
        if "target" not in released:
            return NoisySums(self.counts, self.noises)
        return NoisySums(self.counts, self.noises, released["target"], float(noises["target"].sigma))

    def encode(self, binned: Codes) -> Design:
        """Return the design of rows, from the bins of their columns."""
        codes = np.empty_like(binned)
        for place, each in enumerate(self.maps):
            codes[:, place] = each[binned[:, place]]
        return Design(self.features, np.empty((len(binned), 0), np.int32), codes)


@dataclass(frozen=True)
class Curve:
    """What the model adds for one column: a step for each bin, with the standard deviation of its noise."""

    name: Any
    lower: tuple[float, ...] | None  # the ends of the bins of a number; None for categories
    upper: tuple[float, ...] | None
    keys: tuple[str, ...] | None
    values: Floats  # bins × outputs
    errors: Floats  # of each bin

    def to_rows(self, output: int = 0) -> list[dict[str, Any]]:
        """Return the curve as plain rows, for one class."""
        return [
            {
                **({"lower": self.lower[i], "upper": self.upper[i]} if self.lower and self.upper else {}),
                **({"key": self.keys[i]} if self.keys else {}),
                "value": float(self.values[i, output]),
                "error": float(self.errors[i]),
            }
            for i in range(len(self.values))
        ]


class OnlyForClasses:
    """A method of a classifier that a regression of the same class does not have."""

    def __init__(self, method: Callable[..., Floats]) -> None:
        self._method, self.__doc__ = method, method.__doc__

    def __get__(self, model: "Additive | None", kind: type | None = None) -> Callable[[Any], Floats]:
        if model is None:
            return self._method
        if model.predicts_numbers:
            raise AttributeError(f"a regression has no {self._method.__name__}")
        return MethodType(self._method, model)


class Additive(ClassifierMixin, PrivateEstimator):
    """An additive model of binned columns: classification with `classes`, regression with `target_bounds`.

    `curves_` has one curve for each column, with the standard deviation of the noise in each bin; `intercept_` is the rest.
    The other parameters are those of `LogisticRegression`.
    """

    def __init__(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number | None = None,
        bounds: ColumnBounds | None = None,
        categories: Mapping[Any, Sequence[Key]] | None = None,
        classes: Sequence[Key] | None = None,
        target_bounds: tuple[Number, Number] | None = None,
        expected: int | None = None,
        steps: int | None = None,
        clip: Number | None = None,
        neighbours: Neighbours | str | None = None,
        account: Payer = None,
    ) -> None:
        self.epsilon, self.delta, self.bounds, self.categories = epsilon, delta, bounds, categories
        self.classes, self.target_bounds, self.expected = classes, target_bounds, expected
        self.steps, self.clip, self.neighbours, self.account = steps, clip, neighbours, account

    @property
    def KIND(self) -> str:  # type: ignore[override]  # noqa: N802
        """The kind of estimator that scikit-learn takes it for."""
        return "regressor" if self.task == "regression" else "classifier"

    @property
    def task(self) -> Literal["classification", "regression"]:
        """What the model predicts: numbers if `target_bounds` are given, else classes."""
        return "regression" if self.predicts_numbers else "classification"

    @property
    def predicts_numbers(self) -> bool:
        """Whether it is a regression: by its target once it is fitted, else by its parameters."""
        fitted = getattr(self, "_declared_target", None)
        return isinstance(fitted, NumericFeature) if fitted is not None else self.target_bounds is not None

    decision_function = OnlyForClasses(ClassifierMixin.decision_function)  # type: ignore[assignment]
    predict_proba = OnlyForClasses(ClassifierMixin.predict_proba)  # type: ignore[assignment]
    predict_log_proba = OnlyForClasses(ClassifierMixin.predict_log_proba)  # type: ignore[assignment]

    def _read_target(self, records: Records | None) -> Target:
        keys, bounds = getattr(records, "target_keys", None), getattr(records, "target_bounds", None)
        if self.classes is not None and self.target_bounds is not None:
            raise BadParameter("classes", "given", "target_bounds are given too", "give one of the two")
        if self.target_bounds is not None or (self.classes is None and keys is None and bounds is not None):
            return read_target_bounds(self.target_bounds, records)
        return read_classes(self.classes, records)

    def _make_settings(self, declared: Declaration) -> Settings:
        length = Fraction(round((1 + len(declared.features.names)) ** 0.5 * 64), 64)
        return make_settings(declared.target, length, COUNTS_SHARE, steps=self.steps, clip=self.clip)

    def _list_vectors(self, declared: Declaration) -> tuple[NoisyVector, ...]:
        columns = 1 + len(declared.features.names)
        counts = bound_unit(columns, declared.neighbours, declared.max_rows, nonnegative=True)
        return list_descent_vectors(self._make_settings(declared), "counts", counts, declared)

    def _list_shapes(self, declared: Declaration) -> Mapping[str, tuple[int, ...]]:
        width = bin_features(declared.features).width
        outputs = choose_residuals(declared.target).outputs
        settings = self._make_settings(declared)
        shapes: dict[str, tuple[int, ...]] = {"counts": (width,), "gradients": (settings.steps, outputs, width)}
        return shapes | ({"target": (2,)} if settings.target_share else {})

    def _release(self, declared: Declaration, rows: Rows, noises: Mapping[str, Gaussian], bits: Bits) -> Released:
        features = declared.features
        binned_features, binned = bin_features(features), bin_rows(rows.design)
        whole = Rows(Design(binned_features, np.empty((len(binned), 0), np.int32), binned), rows.target, rows.present)
        counting = self._make_descent(declared, binned_features)
        exact = counting.sum_columns(IntegerRows.of(whole)) // ONE
        counts = noises["counts"].release(exact, bits)
        released = {"counts": counts}
        merged = self._merge(declared, counts, noises)
        descent = replace(counting, features=merged.features)
        prepared = IntegerRows.of(Rows(merged.encode(binned), rows.target, rows.present))
        if descent.settings.target_share:
            released["target"] = noises["target"].release(sum_target(prepared), bits)
        found = descent.release_gradients(prepared, merged.read_sums(released, noises), noises["gradients"], bits)
        gradients = np.zeros(self._list_shapes(declared)["gradients"], np.int64)
        gradients[:, :, : found.shape[2]] = found  # the rest is 0, without noise, because there are no such bins
        return released | {"gradients": gradients}

    def _make_descent(self, declared: Declaration, features: Features) -> Descent:
        residuals = choose_residuals(declared.target)
        return Descent(features, residuals, self._make_settings(declared), expected=declared.expected)

    def _merge(self, declared: Declaration, counts: Ints, noises: Mapping[str, Gaussian]) -> Merged:
        """Merge bins, from noisy counts alone."""
        descent = self._make_descent(declared, declared.features)
        size = max(float(counts[0]), declared.expected / 4, 1.0)
        columns = len(declared.features.names)
        bins = choose_bins(descent.settings, columns, descent.residuals.curvature, size, float(noises["gradients"].sigma))
        numbers = len(declared.features.numbers)
        return Merged.of(bin_features(declared.features), numbers, counts, float(noises["counts"].sigma), bins)

    def _show(self, declared: Declaration, plan: FitPlan, released: Released) -> None:
        features = declared.features
        merged = self._merge(declared, released["counts"], plan.noises)
        descent = self._make_descent(declared, merged.features)
        gradients = released["gradients"][:, :, : merged.features.width]
        path = descent.follow(merged.read_sums(released, plan.noises), gradients, plan.noises)
        self._merged, self._weights = merged, path.result
        self.n_iter_ = descent.settings.steps
        self._show_curves(features, merged, path.result, path.errors, path.means)

    def _show_curves(self, features: Features, merged: Merged, weights: Floats, errors: Floats, means: Floats) -> None:
        """Curves around their mean over the records, so that the intercept is the prediction for a typical row."""
        scale, curves, intercept = self._scale, list[Curve](), weights[:, 0].copy()
        for place, offset in enumerate(merged.features.offsets):
            size = int(merged.maps[place].max()) + 1
            part = weights[:, offset : offset + size]
            share = means[offset : offset + size]
            centre = part @ share / max(float(share.sum()), 1e-12)
            intercept += centre
            values, spread = (part - centre[:, None]).T * scale, errors[offset : offset + size] * scale
            lower = upper = keys = None
            if place < len(features.numbers):
                number = features.numbers[place]
                ends = np.searchsorted(merged.maps[place], np.arange(size + 1)) * (ONE // BINS) - HALF
                cut = number.decode(ends)
                lower, upper = tuple(cut[:-1].tolist()), tuple(cut[1:].tolist())
            else:
                keys = (*map(str, features.categories[place - len(features.numbers)].keys), OTHER)
            curves.append(Curve(features.names[place], lower, upper, keys, values, spread))
        self.curves_ = {curve.name: curve for curve in curves}
        found = intercept * scale + self._middle
        self.intercept_ = found if len(found) > 1 else float(found[0])

    @property
    def _scale(self) -> float:
        target = self._declared_target
        return nearest_float(target.upper - target.lower) if isinstance(target, NumericFeature) else 1.0

    @property
    def _middle(self) -> float:
        target = self._declared_target
        return nearest_float(target.middle) if isinstance(target, NumericFeature) else 0.0

    def _score_rows(self, X: Any) -> Floats:
        design = self._encode(X)
        return multiply_design(self._merged.encode(bin_rows(design)), self._weights)

    def score_rows(self, design: Design) -> Floats:
        """Return scores for private metrics: each row's on its own, to the last bit."""
        return score_linear_model(self._merged.encode(bin_rows(design)), self._weights, self._declared_target)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each row; for numbers the prediction, clamped to the bounds of the target."""
        if isinstance(self._require_fitted()._declared_target, NumericFeature):
            return np.clip(self._score_rows(X)[:, 0], -0.5, 0.5) * self._scale + self._middle
        return super().predict(X)

    def chart(self, column: Any, output: int = 0) -> Chart:
        """Return the curve of a column as a chart, with bars of two standard deviations of its noise."""
        curve = self._require_fitted().curves_.get(column)
        if curve is None:
            names = ", ".join(map(repr, self.curves_))
            raise BadParameter("column", repr(column), "not a column of the model", f"take one of {names}")
        return draw_curve(curve, output)


def bin_rows(design: Design) -> Codes:
    """Return the bin of every column of rows: those of numbers, then the categories."""
    return np.hstack([to_bins(design.numbers), design.codes])


def draw_curve(curve: Curve, output: int) -> Chart:
    """Return a curve as a chart."""
    rows = curve.to_rows(output)
    for row in rows:
        row["low"], row["high"] = row["value"] - 2 * row["error"], row["value"] + 2 * row["error"]
        if curve.lower is not None:
            row["middle"] = (row["lower"] + row["upper"]) / 2
    where: dict[str, Any] = (
        {"field": "key", "type": "nominal", "sort": None, "title": str(curve.name)}
        if curve.keys
        else {"field": "middle", "type": "quantitative", "title": str(curve.name)}
    )
    return Chart(
        {
            "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
            "data": {"values": rows},
            "encoding": {"x": where},
            "layer": [
                {
                    "mark": "rule",
                    "encoding": {"y": {"field": "low", "type": "quantitative", "title": "effect"}, "y2": {"field": "high"}},
                },
                {"mark": "point", "encoding": {"y": {"field": "value", "type": "quantitative"}}},
            ],
        }
    )


__all__ = ["Additive", "Curve"]
