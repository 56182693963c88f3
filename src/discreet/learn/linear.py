"""Linear models: logistic regression for two and more classes, least squares, ridge.

All are full-batch gradient descent on integers (`descent`): one debit, one Gaussian in the end. What one record moves is
bounded by clipping, so that no assumption about the loss, its convexity or the data is needed.

**One default for all ε.** How far the weights are pulled to zero, and how fast columns are learnt that few records have,
follows from the noise of the fit itself, which is public: σ over the noisy number of records. So the number of steps, the
clipping and the learning rate are the same constants for every ε (`STEPS` and those below it). They were chosen on
generated data (rows like Adult's with other seeds and targets, scikit-learn's `make_classification`, `make_regression`,
`make_friedman2` and `make_friedman3`, lognormal columns) and on its wine and digits, at ε from 0.1 to 3: not on the data
that the benchmarks report.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from discreet._numbers import Number, check_int, nearest_float, read_decimal, read_positive
from discreet.errors import BadParameter
from discreet.learn.charging import FitPlan, NoisyVector, Payer, Released, bound_unit
from discreet.learn.descent import (
    TARGET_NORM_SQUARED,
    Descent,
    Floats,
    LinearResiduals,
    LogisticResiduals,
    Path,
    Residuals,
    Settings,
    SoftmaxResiduals,
)
from discreet.learn.estimator import Declaration, PrivateEstimator, read_classes, read_target_bounds
from discreet.learn.features import ONE, CategoryFeature, ColumnBounds, Design, Features, NumericFeature, Target
from discreet.learn.records import Records, Rows
from discreet.learn.scoring import score_linear_model
from discreet.mechanisms.gaussian import Gaussian
from discreet.noise import Bits
from discreet.query.schema import Key
from discreet.units import Neighbours

STEPS = 30
LEARNING_RATE = 0.15
MOMENTUM = 0.8
CLASS_EFFECT = 3.0
"""How far all columns together are expected to move a prediction, in logits: for shrinkage."""

NUMBER_EFFECT = 0.7
"""The same for a number, in standard deviations of the target."""

MOMENTS_SHARE = Fraction(1, 10)
"""The share of μ² for column sums; the gradients get the rest."""

CLASS_CLIP = Fraction(1, 5)
"""The residual of a class, from −1 to 1, at which a record of typical length is clipped."""

NUMBER_CLIP = Fraction(1)
"""The residual of a number, in standard deviations of the target, likewise."""

TARGET_SHARE = Fraction(1, 20)
"""The share of μ² for the sums of a target that is a number."""

MAX_STEPS = 10_000
MAX_CLIP = Fraction(16)


def measure_typical_length(features: Features) -> Fraction:
    """Return the length of a row with numbers one standard deviation off, up to a 64th: from the declaration alone.

    >>> measure_typical_length(Features.of({"age": (0, 100)}, {"sex": ("F", "M")}))
    Fraction(93, 64)
    """
    square = 1 + Fraction(len(features.numbers), 9) + len(features.categories)
    return Fraction(round(nearest_float(square) ** 0.5 * 64), 64)


def make_settings(
    target: Target, length: Fraction, sums_share: Fraction, *, steps: int | None, clip: Number | None
) -> Settings:
    """Return how a descent runs whose rows are typically so long: the defaults, or the parameters of a model, checked."""
    made = STEPS if steps is None else check_int(steps, "steps", 1)
    if made > MAX_STEPS:
        raise BadParameter("steps", made, f"at most {MAX_STEPS:,} are made", "noise grows with them: give fewer")
    number = isinstance(target, NumericFeature)
    effect, default, share = (
        (NUMBER_EFFECT, NUMBER_CLIP, TARGET_SHARE) if number else (CLASS_EFFECT, CLASS_CLIP, Fraction(0))
    )
    limit = default * length if clip is None else read_positive(clip, "clip")
    if limit > MAX_CLIP or limit < Fraction(1, 1 << 12):
        raise BadParameter("clip", nearest_float(limit), "out of reach of the grid", "give a number from 0.001 to 16")
    return Settings(made, limit, LEARNING_RATE, MOMENTUM, effect, sums_share, share)


def list_descent_vectors(
    settings: Settings, sums: str, l2_squared: Fraction, declared: Declaration
) -> tuple[NoisyVector, ...]:
    """Return what a descent releases: sums of this name, those of a target that is a number, and gradients."""
    relation, rows = declared.neighbours, declared.max_rows
    target = NoisyVector("target", bound_unit(TARGET_NORM_SQUARED, relation, rows), settings.target_share)
    gradients = bound_unit(settings.clip_on_grid**2, relation, rows)
    return (
        NoisyVector(sums, l2_squared, settings.moments_share),
        *([target] if settings.target_share else []),
        NoisyVector("gradients", gradients, settings.gradients_share, settings.steps),
    )


class LinearModel(PrivateEstimator):
    """What the linear models share."""

    steps: int | None
    clip: Number | None
    coef_: Floats
    intercept_: Floats | float

    def _make_descent(self, declared: Declaration) -> Descent:
        length = measure_typical_length(declared.features)
        settings = make_settings(declared.target, length, MOMENTS_SHARE, steps=self.steps, clip=self.clip)
        return Descent(declared.features, choose_residuals(declared.target), settings, expected=declared.expected)

    def _list_vectors(self, declared: Declaration) -> tuple[NoisyVector, ...]:
        descent = self._make_descent(declared)
        moments = bound_unit(descent.moments_norm_squared, declared.neighbours, declared.max_rows)
        return list_descent_vectors(descent.settings, "moments", moments, declared)

    def _list_shapes(self, declared: Declaration) -> Mapping[str, tuple[int, ...]]:
        return self._make_descent(declared).shapes

    def _release(self, declared: Declaration, rows: Rows, noises: Mapping[str, Gaussian], bits: Bits) -> Released:
        return self._make_descent(declared).release(rows, noises, bits)

    def _show(self, declared: Declaration, plan: FitPlan, released: Released) -> None:
        descent = self._make_descent(declared)
        path = descent.follow(descent.read_sums(released, plan.noises), released["gradients"], plan.noises)
        self._weights = path.result
        self._show_coefficients(declared.features, path)
        self.n_iter_ = path.descent.settings.steps

    def _show_coefficients(self, features: Features, path: Path) -> None:
        """Coefficients in the units of the columns, with the standard errors of their noise."""
        scale, weights, errors = self._target_scale, path.result, path.errors
        numbers = len(features.numbers)
        ranges = np.array([nearest_float(each.upper - each.lower) for each in features.numbers])
        middles = np.array([nearest_float(each.middle) for each in features.numbers])
        coefficients, spread = weights[:, 1:] * scale, errors[1:] * scale
        coefficients[:, :numbers] /= ranges
        spread[:numbers] /= ranges
        intercepts = weights[:, 0] * scale + self._target_middle - coefficients[:, :numbers] @ middles
        self.coef_, self.intercept_ = self._shape_coefficients(coefficients, intercepts)
        self.coef_errors_ = np.broadcast_to(spread, coefficients.shape).reshape(self.coef_.shape).copy()
        self.coef_names_ = features.column_names[1:]

    def _shape_coefficients(self, coefficients: Floats, intercepts: Floats) -> tuple[Floats, Any]:
        return coefficients, intercepts

    @property
    def _target_scale(self) -> float:
        return 1.0

    @property
    def _target_middle(self) -> float:
        return 0.0

    def _score_rows(self, X: Any) -> Floats:
        """Return the logits of rows to predict for, one column for each class or output."""
        design = self._encode(X)
        return multiply_design(design, self._weights)

    def score_rows(self, design: Design) -> Floats:
        """Return scores for private metrics: each row's on its own, to the last bit."""
        return score_linear_model(design, self._weights, self._declared_target)


def multiply_design(design: Design, weights: Floats) -> Floats:
    """Return X·w in units, for rows that are the caller's own: in doubles."""
    numbers = design.numbers.shape[1]
    scores = (design.numbers / float(ONE)) @ weights[:, 1 : 1 + numbers].T + weights[:, 0]
    for place, offset in enumerate(design.features.offsets):
        scores += weights.T[offset + design.codes[:, place]]
    return scores


class ClassifierMixin:
    """What classifiers share, once rows have a score for each class."""

    classes_: NDArray[Any]
    classes: Sequence[Key] | None

    if TYPE_CHECKING:

        def _score_rows(self, X: Any) -> Floats: ...

    def _read_target(self, records: Records | None) -> Target:
        return read_classes(self.classes, records)

    def decision_function(self, X: Any) -> Floats:
        """Return the logit of the second class, or one for each class if there are more."""
        scores = self._score_rows(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class. Clipping pulls probabilities to the middle: they are not calibrated."""
        scores = self._score_rows(X)
        if scores.shape[1] == 1:
            scores = np.hstack([np.zeros_like(scores), scores])
        raised = np.exp(scores - scores.max(axis=1, keepdims=True))
        return cast("Floats", raised / raised.sum(axis=1, keepdims=True))

    def predict_log_proba(self, X: Any) -> Floats:
        """Return the logarithm of the probability of each class."""
        return cast("Floats", np.log(np.maximum(self.predict_proba(X), np.finfo(float).tiny)))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each row."""
        found = self.predict_proba(X).argmax(axis=1)
        return cast("NDArray[Any]", self.classes_[found])


def choose_residuals(target: Target) -> Residuals:
    """Return the loss for a target: logistic for two classes, softmax for more, squares for numbers."""
    if isinstance(target, NumericFeature):
        return LinearResiduals()
    assert isinstance(target, CategoryFeature)
    return LogisticResiduals() if len(target.keys) == 2 else SoftmaxResiduals(len(target.keys))


class LogisticRegression(ClassifierMixin, LinearModel):
    """Logistic regression, for two classes or more, with Gaussian noise on clipped gradient sums.

    `coef_` and `intercept_` are in the units of the columns, one row for each class, or one if there are two. `coef_names_`
    are the columns: categories have one for each key and one for all others. `coef_errors_` are the standard deviations of
    the noise in `coef_`, given the path of the fit.

    Args:
        epsilon: The ε of one fit. Each call of `fit` is a debit.
        delta: Its δ; left out where the account has its own.
        bounds: The range of each column of numbers: {"age": (17, 90)}. For an array one pair, or a list of pairs.
        categories: The keys of each column of categories: {"sex": ("F", "M")}. All other values are one category, "other".
        classes: The classes, in the order of the columns of `predict_proba`. Records of other classes do not count.
        expected: About how many records there are: a public guess. The noisy count is taken for a quarter of it at least.
        steps: How many gradients are released. The default serves every ε.
        clip: How far one record moves a gradient sum at most.
        neighbours: "add-remove" one unit, or "replace" one; a session has its own.
        account: The session, or the account of a ledger, that pays. None: a budget in memory, with a warning from the second
            fit on.
    """

    KIND = "classifier"

    def __init__(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number | None = None,
        bounds: ColumnBounds | None = None,
        categories: Mapping[Any, Sequence[Key]] | None = None,
        classes: Sequence[Key] | None = None,
        expected: int | None = None,
        steps: int | None = None,
        clip: Number | None = None,
        neighbours: Neighbours | str | None = None,
        account: Payer = None,
    ) -> None:
        self.epsilon, self.delta, self.bounds, self.categories = epsilon, delta, bounds, categories
        self.classes, self.expected, self.steps, self.clip = classes, expected, steps, clip
        self.neighbours, self.account = neighbours, account


class RegressorMixin:
    """What regressions share, once rows have a score."""

    target_bounds: tuple[Number, Number] | None
    _declared_target: Target

    if TYPE_CHECKING:

        def _score_rows(self, X: Any) -> Floats: ...

    def _read_target(self, records: Records | None) -> Target:
        return read_target_bounds(self.target_bounds, records)

    @property
    def _target_scale(self) -> float:
        target = cast("NumericFeature", self._declared_target)
        return nearest_float(target.upper - target.lower)

    @property
    def _target_middle(self) -> float:
        return nearest_float(cast("NumericFeature", self._declared_target).middle)

    def predict(self, X: Any) -> Floats:
        """Return the predicted numbers, clamped to the declared bounds of the target."""
        scores = np.clip(self._score_rows(X)[:, 0], -0.5, 0.5)
        return scores * self._target_scale + self._target_middle


class LinearRegression(RegressorMixin, LinearModel):
    """Least squares, with Gaussian noise on clipped gradient sums. Predictions are clamped to the bounds of the target.

    The parameters are those of `LogisticRegression`, but for `target_bounds`, the range of what is predicted: records are
    clamped to it.
    """

    KIND = "regressor"

    def __init__(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number | None = None,
        bounds: ColumnBounds | None = None,
        categories: Mapping[Any, Sequence[Key]] | None = None,
        target_bounds: tuple[Number, Number] | None = None,
        expected: int | None = None,
        steps: int | None = None,
        clip: Number | None = None,
        neighbours: Neighbours | str | None = None,
        account: Payer = None,
    ) -> None:
        self.epsilon, self.delta, self.bounds, self.categories = epsilon, delta, bounds, categories
        self.target_bounds, self.expected, self.steps, self.clip = target_bounds, expected, steps, clip
        self.neighbours, self.account = neighbours, account

    def _shape_coefficients(self, coefficients: Floats, intercepts: Floats) -> tuple[Floats, Any]:
        return coefficients[0], float(intercepts[0])


class Ridge(LinearRegression):
    """Least squares with a penalty on the squared weights, `alpha` times as scikit-learn counts it on scaled columns.

    Columns are scaled to their bounds, so the penalty is on weights per range of a column, and does not depend on units. The
    sum that is minimised is Σ residual² + alpha·Σ weight².
    """

    def __init__(
        self,
        *,
        alpha: Number = 1,
        epsilon: Number | None = None,
        delta: Number | None = None,
        bounds: ColumnBounds | None = None,
        categories: Mapping[Any, Sequence[Key]] | None = None,
        target_bounds: tuple[Number, Number] | None = None,
        expected: int | None = None,
        steps: int | None = None,
        clip: Number | None = None,
        neighbours: Neighbours | str | None = None,
        account: Payer = None,
    ) -> None:
        super().__init__(
            epsilon=epsilon, delta=delta, bounds=bounds, categories=categories, target_bounds=target_bounds,
            expected=expected, steps=steps, clip=clip, neighbours=neighbours, account=account,
        )  # fmt: skip
        self.alpha = alpha

    def _make_descent(self, declared: Declaration) -> Descent:
        found = super()._make_descent(declared)
        penalty = read_decimal(self.alpha, "alpha")
        if penalty < 0:
            raise BadParameter("alpha", self.alpha, "a penalty is not negative", "give 0 or more")
        return replace(found, penalty=nearest_float(penalty))


__all__ = ["LinearRegression", "LogisticRegression", "Ridge"]
