"""How good a model is on private test records: noisy counts with intervals that hold, for one debit.

**What is released.** Each metric is a vector to which a record adds integers; several of one call share the budget equally.

- `accuracy`: right and wrong predictions. A record adds 1 to one of them.
- `confusion`: declared classes against predicted ones. A record adds 1 to one cell. Accuracy follows from it for free.
- `auc`, `calibration` (two classes): one histogram of both classes over 64 public bins of the score. One cell again.
- `log_loss`: ℓ, the logarithmic loss clamped at 4 and divided by it, as (Σℓ, Σ(1 − ℓ)).
- `inertia` (clusters): ℓ, the squared distance from the nearest centre in half-ranges, divided by the number of columns and
  clamped at 1, as (Σℓ, Σ(1 − ℓ)).
- `r2` (numbers): (n, Σu, Σ(1 − u²), Σq), where u is the target in half-ranges from the middle of its bounds, from −1 to 1,
  and q the squared error of the prediction in the same unit, clamped at 1.

**Proof** of the sensitivity. One cell: 1. (ℓ, 1 − ℓ) with 0 ≤ ℓ ≤ 1: ℓ² + (1 − ℓ)² ≤ 1. All these are non-negative, so a
replaced record moves them by at most √2. `r2`: 1 + (u² + (1 − u²)²) + q² ≤ 3; replaced, n does not move, (u, 1 − u²) stays
in the unit disc and moves by at most 2, q by at most 1: 5. What a record adds depends on its own row alone (`scoring`),
also to the last bit; a record whose target is missing adds nothing. The model must be public or released: it is no part of
what is charged here. ∎

**Intervals** cover the metric of these test records with the stated confidence; whether other records would give the same is
another question. The noise is Gaussian, rounded; all sums are multiples of 2⁻¹⁵, so rounding is a term of 2⁻¹⁶ in each.

- A ratio θ = A/(A + B): at the true θ, (1 − θ)A − θB = 0, so the noisy value of it is noise alone, of known deviation. The
  interval is the set of θ that this does not reject [Fie54]. Its ends are found by bisection: the noisy value is linear in
  θ and its bound convex, so the set is cut off once on each side.
- AUC = pᵀMn/(pᵀJn) with p and n the counts of both classes, J all ones and M the order of the bins. At the true θ, pᵀ(M −
  θJ)n = 0. With noise e and f, the noisy value is eᵀ(M − θJ)ñ + p̃ᵀ(M − θJ)f − eᵀ(M − θJ)f. Of the first two, each is
  normal given ñ, respectively p̃, since e and f are independent of the other class; the third is bounded with ‖(M − θJ)ᵀe‖
  ≤ σ(‖M − θJ‖_F + √(2x)·‖M − θJ‖₂) but for e^−x. Pairs in one bin count as 0 at the lower end and as 1 at the upper end, so
  the interval also covers what the bins hide.
- R² = 1 − Q/S with Q = Σq and S = Σ(u − m)² around the mean m. At the true m and φ = S/(S + Q), (1 − φ)S − φQ = 0, and S is
  n − Σ(1 − u²) − 2mΣu + m²n, linear in the sums: the noisy value is noise alone, of known deviation. m lies within a known
  distance of its estimate, but for a tenth of what the interval may miss; φ is rejected if it is for all such m, between
  whose ends the value is largest or smallest at an end or at the estimate, where its slope is 0. R² = 2 − 1/φ.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from hashlib import sha256
from math import inf, log, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet._numbers import Number, check_confidence
from discreet.accounting.cost import Cost
from discreet.errors import BadParameter
from discreet.events import Composition
from discreet.learn.charging import (
    Fit,
    FitPlan,
    NoisyVector,
    Payer,
    Released,
    bound_unit,
    make_terms,
    plan_fit,
    read_neighbours,
    run_fit,
)
from discreet.learn.estimator import find_payer
from discreet.learn.features import GRID_BITS, HALF, CategoryFeature, Features, Ints, NumericFeature, Target
from discreet.learn.records import Records, Rows, to_records
from discreet.learn.scoring import Floats, RowwiseScores, check_scores, choose_first_best, look_up_losses, require_own_scores
from discreet.mechanisms.gaussian import Gaussian
from discreet.noise import Bits
from discreet.units import Neighbours

SCORE_BINS = 64
"""Public bins of a score, for AUC and calibration."""

SCORE_EDGES: Floats = 2 * np.log(np.arange(1, SCORE_BINS) / np.arange(SCORE_BINS - 1, 0, -1))
"""Where the bins end, as logits: equal steps of 1/(1 + e^(−logit/2)), which has wider tails than the probability itself."""

CALIBRATION_GROUPS = 8
"""Bins of a calibration curve, each of 8 bins of the score."""

MAX_LOSS = 4.0
"""Where the logarithmic loss of a record is clamped: a probability of 1.8% for its own class."""

LARGEST_SCORE = 1e300
"""Scores beyond this count as this large: differences of two stay finite."""

UNIT = HALF
"""1 on the grid of all sums."""

ROUNDING = 0.5 / UNIT
"""How far rounding moves a sum."""

FOR_CLASSES = ("accuracy", "confusion", "auc", "calibration", "log_loss")
DEFAULTS = {"classes": ("accuracy", "log_loss"), "numbers": ("r2",), "clusters": ("inertia",)}


# What a metric is


@dataclass(frozen=True)
class Metric:
    """A noisy metric with an interval that contains the metric of these records with the stated confidence."""

    value: float
    lower: float
    upper: float
    confidence: float

    def __str__(self) -> str:
        return f"{self.value:.4f} [{self.lower:.4f}, {self.upper:.4f}]"


@dataclass(frozen=True, eq=False)
class ConfusionMatrix:
    """Noisy counts of declared classes (rows) against predicted ones (columns). Each is off by at most `half_width`."""

    classes: tuple[Any, ...]
    counts: Floats
    half_width: float
    confidence: float


@dataclass(frozen=True)
class CalibrationBin:
    """Records with a predicted probability from `lowest` to `highest`, and the share of the second class among them."""

    lowest: float
    highest: float
    share: Metric


@dataclass(frozen=True, eq=False)
class Metrics(Mapping[str, Any]):
    """Released metrics by name, and what they cost."""

    values_: Mapping[str, Any] = field(repr=False)
    cost: Cost
    event: Composition

    def __getitem__(self, name: str) -> Any:
        return self.values_[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_)

    def __len__(self) -> int:
        return len(self.values_)

    def __repr__(self) -> str:
        return f"Metrics({', '.join(f'{name}={_format_metric(each)}' for name, each in self.values_.items())})"


def _format_metric(found: Any) -> str:
    """One metric in one line, with its error."""
    if isinstance(found, ConfusionMatrix):
        rows = "; ".join(", ".join(f"{each:,.0f}" for each in row) for row in found.counts)
        return f"[{rows}] ±{found.half_width:,.1f}"
    if isinstance(found, tuple):  # of the calibration: one share for each bin
        return f"<{len(found)} bins>"
    return str(found)


def release_metrics(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    metrics: Sequence[str] | None = None,
    epsilon: Number | None = None,
    delta: Number | None = None,
    account: Payer = None,
    neighbours: Neighbours | str | None = None,
    confidence: Number = 0.95,
    bits: Bits | None = None,
    id: str | None = None,
) -> Metrics:
    """Release metrics of a fitted model on private test records, for one debit.

    `metrics` are names: "accuracy", "confusion", "auc", "calibration", "log_loss" for classes, "r2" for numbers, "inertia"
    for clusters. The model is one of discreet.learn: no other code is handed private rows. Test records should not be
    training records: of units that the model was not fitted on, the metrics cost nothing beside the fit (parallel
    composition).

    >>> import numpy as np
    >>> from discreet.learn import BinnedNB
    >>> from discreet.ledger.memory import MemoryAccount, create_budget
    >>> from discreet.testing import seeded_bits
    >>> generator = np.random.default_rng(0)
    >>> y = generator.integers(0, 2, 6000)
    >>> X = (y + generator.normal(0, 0.5, 6000))[:, None]
    >>> model = BinnedNB(epsilon=1, delta=1e-6, bounds=(-2, 3), classes=(0, 1)).fit(X[:3000], y[:3000], bits=seeded_bits(1))
    >>> found = release_metrics(
    ...     model, X[3000:], y[3000:], metrics=("accuracy", "auc"), epsilon=1, delta=1e-6, bits=seeded_bits(2),
    ...     account=MemoryAccount(create_budget(1, 1e-6)))
    >>> found["accuracy"].lower < 0.84 < found["accuracy"].upper, found["auc"].lower < 0.92 < found["auc"].upper
    (True, True)
    """
    evaluation = Evaluation.of(model, to_records(X, y), metrics)
    payer = find_payer(evaluation.records, account)
    relation = read_neighbours(neighbours, payer)
    level = check_confidence(confidence)
    evaluation.records.check(evaluation.features, evaluation.target)
    plan = plan_fit(evaluation.list_vectors(relation), make_terms(epsilon, delta, payer, "a metric"), payer)
    settings = {"class": "metrics", "metrics": [*evaluation.names], "of": fingerprint(model)}
    fit = Fit(
        evaluation.records, evaluation.features, evaluation.target, relation, settings, plan,
        evaluation.release, evaluation.list_shapes(),
    )  # fmt: skip
    fitted = run_fit(fit, bits=bits, id=id)
    return Metrics(evaluation.show(plan, fitted.released, level), fitted.cost, fitted.event)


def fingerprint(model: Any) -> str:
    """Return a hash of what a model predicts with: the arrays that it shows, which are public."""
    digest = sha256(type(model).__name__.encode())
    for name, value in sorted(vars(model).items()):
        if isinstance(value, np.ndarray) and value.dtype != object:
            digest.update(name.encode() + np.ascontiguousarray(value).tobytes())
    return digest.hexdigest()


# What is summed


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Metrics of one model on records: what is summed, and what the sums say."""

    model: RowwiseScores
    records: Records
    features: Features
    target: Target
    task: str
    names: tuple[str, ...]

    @classmethod
    def of(cls, model: Any, records: Records, metrics: Sequence[str] | None) -> "Evaluation":
        """Check which metrics a model has."""
        require_own_scores(model)
        for name, value in vars(model).items():
            if isinstance(value, np.ndarray) and value.dtype.kind == "f" and np.isnan(value).any():
                raise BadParameter("model", f"changed: {name} holds NaN", "no fit gives that", "fit it again")
        features, target = read_declaration(model)
        check_scores(model, features, target)
        task = {CategoryFeature: "classes", NumericFeature: "numbers"}.get(type(target), "clusters")
        known = [*FOR_CLASSES] if task == "classes" else [*DEFAULTS[task]]
        if task == "classes" and len(target.keys) != 2:  # type: ignore[union-attr]
            known = [name for name in known if name not in ("auc", "calibration")]
        names = (metrics,) if isinstance(metrics, str) else DEFAULTS[task] if metrics is None else tuple(metrics)
        for name in names:
            if name not in known:
                raise BadParameter("metrics", repr(name), f"not a metric of {task} like these", f"take {', '.join(known)}")
        return cls(model, records, features, target, task, tuple(dict.fromkeys(names)))

    @cached_property
    def classes(self) -> int:
        """How many classes are declared."""
        return len(self.target.keys) if isinstance(self.target, CategoryFeature) else 0

    @cached_property
    def vectors(self) -> tuple[str, ...]:
        """Which vectors are released: several metrics may follow from one."""
        found = []
        for name in self.names:
            shared = {"auc": "scores", "calibration": "scores"}.get(name, name)
            found.append("confusion" if shared == "accuracy" and "confusion" in self.names else shared)
        return tuple(dict.fromkeys(found))

    def list_vectors(self, neighbours: Neighbours) -> tuple[NoisyVector, ...]:
        """Return how far one unit moves each vector, with equal shares."""
        return tuple(
            NoisyVector(name, self._bound(name, neighbours), Fraction(1, len(self.vectors))) for name in self.vectors
        )

    def _bound(self, name: str, neighbours: Neighbours) -> Fraction:
        rows = self.records.max_rows
        if name == "r2":
            moved = 3 if neighbours is Neighbours.ADD_REMOVE else 5
            return Fraction(moved * UNIT * UNIT * rows * rows)
        return bound_unit(UNIT * UNIT, neighbours, rows, nonnegative=True)

    def list_shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Return the shapes of the vectors."""
        shapes = {"confusion": (self.classes, self.classes), "scores": (2, SCORE_BINS), "r2": (4,)}
        return {name: shapes.get(name, (2,)) for name in self.vectors}

    def release(self, rows: Rows, noises: Mapping[str, Gaussian], bits: Bits) -> Released:
        """Sum what the records add, and add the noise."""
        scores = score_finitely(self.model, rows)
        target = rows.target[rows.present]
        sums: Mapping[str, Callable[[Floats, Ints], Ints]] = {
            "accuracy": count_right, "confusion": lambda s, t: count_pairs(s, t, self.classes), "scores": count_scores,
            "log_loss": sum_losses, "r2": sum_errors, "inertia": sum_distances,
        }  # fmt: skip
        if self.task == "clusters":
            scores = scores / len(self.features.numbers)
        return {name: noises[name].release(sums[name](scores, target), bits) for name in self.vectors}

    def show(self, plan: FitPlan, released: Released, confidence: float) -> dict[str, Any]:
        """Return the metrics that the released sums give, with intervals."""
        shown: dict[str, Any] = {}
        for name in self.names:
            vector = {"auc": "scores", "calibration": "scores"}.get(name, name)
            if name == "accuracy" and "confusion" in self.names:
                vector = "confusion"
            sums, noise = released[vector] / float(UNIT), plan.noises[vector]
            shown[name] = self._show(name, sums, noise, confidence)
        return shown

    def _show(self, name: str, sums: Floats, noise: Gaussian, confidence: float) -> Any:
        sigma = float(noise.sigma) / UNIT
        if name == "accuracy":
            if sums.ndim == 1:
                return bound_share(float(sums[0]), float(sums[1]), sigma, confidence, (1, 1))
            right, cells = float(np.trace(sums)), self.classes**2
            return bound_share(right, float(sums.sum()) - right, sigma, confidence, (self.classes, cells - self.classes))
        if name == "confusion":
            assert isinstance(self.target, CategoryFeature)
            return ConfusionMatrix(self.target.keys, sums, noise.error(confidence) / UNIT, confidence)
        if name == "auc":
            return bound_auc(sums[1], sums[0], sigma, confidence)
        if name == "calibration":
            return draw_calibration(sums, sigma, confidence)
        if name == "r2":
            return bound_r2(sums, sigma, confidence)
        factor = MAX_LOSS if name == "log_loss" else float(len(self.features.numbers))
        share = bound_share(float(sums[0]), float(sums[1]), sigma, confidence, (1, 1))
        return Metric(factor * share.value, factor * share.lower, factor * share.upper, confidence)


def score_finitely(model: RowwiseScores, rows: Rows) -> Floats:
    """Return the scores of the records that have a target: numbers, whatever the weights of a model are.

    Weights that were changed may be so large that the score of one row is no number. What is summed of it must be bounded
    like that of any other row, and neither an error nor a warning may tell that there is such a row.
    """
    with np.errstate(all="ignore"):
        scores = model.score_rows(rows.design)[rows.present]
    return np.nan_to_num(scores, copy=False, nan=0.0, posinf=LARGEST_SCORE, neginf=-LARGEST_SCORE).clip(
        -LARGEST_SCORE, LARGEST_SCORE
    )


def read_declaration(model: Any) -> tuple[Features, Target]:
    """Return the declared columns and target of a fitted model."""
    if hasattr(model, "_require_fitted"):
        fitted = model._require_fitted()
        return fitted._declared_features, fitted._declared_target
    return model.features, model.target


def count_right(scores: Floats, target: Ints) -> Ints:
    """Return (right, wrong)."""
    right = int((choose_first_best(scores) == target).sum())
    return np.array([right, len(target) - right], np.int64) * UNIT


def count_pairs(scores: Floats, target: Ints, classes: int) -> Ints:
    """Return how many records of each class are predicted to be of each class."""
    cells = np.bincount(target * classes + choose_first_best(scores), minlength=classes * classes)
    return cells.reshape(classes, classes).astype(np.int64) * UNIT


def find_score_bins(scores: Floats) -> NDArray[np.intp]:
    """Return the bin of the logit of the second class, for each row."""
    return np.searchsorted(SCORE_EDGES, scores[:, 1] - scores[:, 0], side="right")


def count_scores(scores: Floats, target: Ints) -> Ints:
    """Return how many records of both classes fall into each bin of the score."""
    cells = np.bincount(target * SCORE_BINS + find_score_bins(scores), minlength=2 * SCORE_BINS)
    return cells.reshape(2, SCORE_BINS).astype(np.int64) * UNIT


def sum_losses(scores: Floats, target: Ints) -> Ints:
    """Return (Σℓ, Σ(1 − ℓ)) of the clamped logarithmic loss."""
    return sum_parts(look_up_losses(scores, target, MAX_LOSS, UNIT))


def sum_distances(scores: Floats, target: Ints) -> Ints:
    """Return (Σℓ, Σ(1 − ℓ)) of the clamped squared distance from the nearest centre."""
    distances = np.floor(np.clip(-scores.max(axis=1), 0.0, 1.0) * UNIT)
    return sum_parts(distances.astype(np.int64))


def sum_parts(parts: Ints) -> Ints:
    """Return the sums of parts, each from 0 to 1 on the grid, and of what is missing to 1."""
    whole = int(parts.sum())
    return np.array([whole, len(parts) * UNIT - whole], np.int64)


def sum_errors(scores: Floats, target: Ints) -> Ints:
    """Return (n, Σu, Σ(1 − u²), Σq) of targets u and clamped squared errors q, on the grid."""
    predicted = np.rint(np.clip(scores[:, 0], -1.0, 1.0) * HALF).astype(np.int64)
    errors = np.minimum(np.abs(target - predicted), HALF)
    squares = ((HALF * HALF - target * target) >> (GRID_BITS - 1), (errors * errors) >> (GRID_BITS - 1))
    return np.array([len(target) * UNIT, target.sum(), squares[0].sum(), squares[1].sum()], np.int64)


# What the sums say


def normal_quantile(tail: float) -> float:
    """Return z with P(Z > z) ≤ `tail`, for a standard normal Z."""
    return NormalDist().inv_cdf(1 - tail) * (1 + 1e-9) + 1e-9


def find_edge(is_rejected: Callable[[float], bool], outside: float, inside: float) -> float:
    """Return where rejection ends between a point outside and one inside, on the side of the outside."""
    if not is_rejected(outside):
        return outside
    for _ in range(40):
        middle = (outside + inside) / 2
        outside, inside = (middle, inside) if is_rejected(middle) else (outside, middle)
    return outside


def bound_share(part: float, rest: float, sigma: float, confidence: float, cells: tuple[int, int]) -> Metric:
    """Return part/(part + rest) of noisy sums of so many cells, with its interval.

    >>> print(bound_share(90.0, 10.0, 1.0, 0.95, (1, 1)))
    0.9000 [0.8825, 0.9181]
    """
    total = part + rest
    if total <= 0:
        return Metric(0.5, 0.0, 1.0, confidence)
    value = min(max(part / total, 0.0), 1.0)
    z = normal_quantile((1 - confidence) / 2)

    def rejects(share: float) -> bool:
        off = (1 - share) * part - share * rest
        slack = ROUNDING * ((1 - share) * cells[0] + share * cells[1])
        return abs(off) > z * sigma * sqrt((1 - share) ** 2 * cells[0] + share**2 * cells[1]) + slack

    return Metric(value, find_edge(rejects, 0.0, value), find_edge(rejects, 1.0, value), confidence)


def order_bins(same: float) -> Floats:
    """Return M: what a pair counts if the second class is in one bin (row) and the first in another (column)."""
    order: Floats = np.tril(np.ones((SCORE_BINS, SCORE_BINS)), -1) + same * np.eye(SCORE_BINS)
    return order


def bound_auc(positive: Floats, negative: Floats, sigma: float, confidence: float) -> Metric:
    """Return the area under the ROC curve of noisy counts of both classes by bin, with an interval for that of scores."""
    pairs = float(positive.sum()) * float(negative.sum())
    if positive.sum() <= 0 or negative.sum() <= 0:
        return Metric(0.5, 0.0, 1.0, confidence)

    def estimate(same: float) -> float:
        return min(max(float(positive @ order_bins(same) @ negative) / pairs, 0.0), 1.0)

    def make_test(same: float) -> Callable[[float], bool]:
        order, spectral = order_bins(same), list_spectral_norms(same)
        tail = (1 - confidence) / 2

        def rejects(area: float) -> bool:
            norm = float(np.interp(area, AREAS, spectral))
            bound = bound_pair_noise(order - area, norm, positive, negative, sigma, tail)
            return abs(float(positive @ (order - area) @ negative)) > bound

        return rejects

    lower = find_edge(make_test(0.0), 0.0, estimate(0.0))
    upper = find_edge(make_test(1.0), 1.0, estimate(1.0))
    return Metric(estimate(0.5), lower, upper, confidence)


AREAS = np.linspace(0, 1, 65)


@lru_cache
def list_spectral_norms(same: float) -> tuple[float, ...]:
    """Return ‖M − θJ‖₂ at 65 areas. A norm is convex in θ, so between them it lies below the line."""
    return tuple(float(np.linalg.norm(order_bins(same) - area, 2)) for area in AREAS)


def bound_pair_noise(form: Floats, spectral: float, positive: Floats, negative: Floats, sigma: float, tail: float) -> float:
    """Return what the noise of a bilinear form exceeds with probability at most `tail`, on one side: see **Intervals**."""
    ahead, behind = form @ negative, positive @ form
    z = normal_quantile(0.45 * tail)
    rest = 0.1 * tail / 3
    wide = sqrt(2 * log(1 / rest))
    product = normal_quantile(rest) * sigma**2 * (float(np.linalg.norm(form)) + wide * spectral)
    rounding = ROUNDING * float(np.abs(ahead).sum() + np.abs(behind).sum())
    noise = sigma * (sqrt(SCORE_BINS) + wide) + ROUNDING * sqrt(SCORE_BINS)  # the length of either noise, e^−x apart
    rounding += 2 * ROUNDING * sqrt(SCORE_BINS) * spectral * noise
    return z * sigma * float(np.linalg.norm(ahead) + np.linalg.norm(behind)) + product + rounding


def draw_calibration(sums: Floats, sigma: float, confidence: float) -> tuple[CalibrationBin, ...]:
    """Return the share of the second class by predicted probability. Each interval holds on its own."""
    size = SCORE_BINS // CALIBRATION_GROUPS
    edges = np.concatenate([[-inf], SCORE_EDGES[size - 1 :: size], [inf]])
    found = []
    for place in range(CALIBRATION_GROUPS):
        part = sums[:, place * size : (place + 1) * size].sum(axis=1)
        share = bound_share(float(part[1]), float(part[0]), sigma, confidence, (size, size))
        low, high = (float(1 / (1 + np.exp(-edge))) for edge in edges[place : place + 2])
        found.append(CalibrationBin(low, high, share))
    return tuple(found)


def bound_r2(sums: Floats, sigma: float, confidence: float) -> Metric:
    """Return R² of noisy (n, Σu, Σ(1 − u²), Σq), with its interval.

    >>> print(bound_r2(np.array([1000.0, 100.0, 800.0, 57.0]), 2.0, 0.95))
    0.7000 [0.6767, 0.7228]
    """
    size, total, rest, errors = map(float, sums)
    z, z_mean = normal_quantile(0.45 * (1 - confidence)), normal_quantile(0.05 * (1 - confidence))
    middle = total / max(size, 1.0)
    off = (z_mean * sigma + ROUNDING) * sqrt(2) / size if size > 0 else inf  # how far the mean may be from it
    means = [min(max(each, -1.0), 1.0) for each in (middle - off, middle, middle + off)]

    def find_spread(mean: float) -> float:
        return size - rest - 2 * mean * total + mean * mean * size

    def rejects(share: float) -> bool:
        """Whether spread/(spread + errors) is not this share, whatever the mean is."""
        values = [(1 - share) * find_spread(mean) - share * errors for mean in means]
        largest = max(abs(mean) for mean in means)
        parts = (share, (1 - share) * (1 + largest**2), 1 - share, 2 * largest * (1 - share))
        slack = z * sigma * sqrt(sum(part * part for part in parts)) + ROUNDING * sum(parts)
        return min(values) > slack or max(values) < -slack

    spread = max(find_spread(means[1]), sigma, 1e-9)
    share = spread / (spread + max(errors, 0.0))
    if rejects(share):  # no spread at all fits these sums: nothing is known
        return Metric(2 - 1 / share, -inf, 1.0, confidence)
    low, high = find_edge(rejects, 0.0, share), find_edge(rejects, 1.0, share)
    return Metric(2 - 1 / share, 2 - 1 / low if low > 0 else -inf, 2 - 1 / high, confidence)
