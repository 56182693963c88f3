"""Scores of rows, each a function of its own row alone: what predictions and private metrics are made of.

A metric on private records sums over rows what a model says of each. The proof that one record moves that sum by at most 1
needs that no record changes what the model says of another, to the last bit. A product of matrices in floats does not give
that: its bits may change with the number of rows. So a model that has private metrics gives *row-wise scores*: they are
computed with sums, products and comparisons of columns, element by element and in a fixed order, which IEEE 754 fixes to the
bit, or as integers. Exponentials and logarithms of a row's own score are looked up in a public table.
"""

import sys
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadParameter
from discreet.learn.features import HALF, ONE, CategoryFeature, Design, Features, NumericFeature, Target

Floats: TypeAlias = NDArray[np.float64]


@runtime_checkable
class RowwiseScores(Protocol):
    """A model whose scores of a row depend on that row alone, to the last bit."""

    def score_rows(self, design: Design) -> Floats:
        """Return one row of scores for each row of the design.

        Classes: one score each, the logarithm of a probability up to a constant of the row. Numbers: the predicted number,
        in half-ranges from the middle of the target's bounds. Clusters: minus the squared distance from each centre, in
        squared half-ranges.
        """
        ...


def require_own_scores(model: Any, parameter: str = "model") -> None:
    """Refuse models whose scores of private rows are not computed by the classes of discreet.learn themselves.

    What another class does with rows that it is handed cannot be seen from here: it may keep them, raise an error for one of
    them, or let one row change the score of another. So neither other classes nor subclasses are handed any, nor models
    with a replaced method, or with something of another class among what they compute with.
    """
    kind = type(model)
    if _is_own(model) and isinstance(model, RowwiseScores) and not _is_replaced(model) and not _find_foreign(model):
        return
    raise BadParameter(
        parameter, f"of type {kind.__name__}", "not a model of discreet.learn that predicts, so nothing is known of what it "
        "does with private rows", "give a model of discreet.learn, itself and not a subclass, as it was fitted",
    )  # fmt: skip


def _is_own(value: Any) -> bool:
    """Return whether a value is of a class of discreet itself."""
    kind = type(value)
    module = kind.__module__
    return module.startswith("discreet.") and vars(sys.modules[module]).get(kind.__name__) is kind


def _is_replaced(value: Any) -> bool:
    """Return whether an object has something in the place of one of its methods."""
    return any(callable(getattr(type(value), name, None)) for name in getattr(value, "__dict__", ()))


PLAIN = (int, float, complex, bool, str, bytes, type(None), Fraction, Decimal, date, datetime)
BESIDE = ("_fitted", "event_", "cost_", "_session_account")
"""What a model keeps and computes no score with; nor with the parameters of its constructor."""


def _find_foreign(model: Any) -> bool:
    """Return whether a model computes scores with something of another class than those of discreet, NumPy and Python:
    what that does with the rows that it is handed could not be seen."""
    beside = {*BESIDE, *(model.get_params() if hasattr(model, "get_params") else ())}
    waiting: list[Any] = [value for name, value in vars(model).items() if name not in beside]
    while waiting:
        value = waiting.pop()
        if type(value) in (list, tuple):
            waiting += value
        elif type(value) is dict:
            waiting += [*value, *value.values()]
        elif type(value) is np.ndarray:
            waiting += value.ravel().tolist() if value.dtype.kind == "O" else []
        elif _is_own(value):
            held = [each.name for each in fields(value)] if is_dataclass(value) else []
            if _is_replaced(value):
                return True
            waiting += [*(getattr(value, name) for name in held), *getattr(value, "__dict__", {}).values()]
        elif type(value) not in PLAIN and type(value).__module__ != "numpy":
            return True
    return False


PROBED_ROWS = (1 << 12) + 1
"""Rows of a probe: all bins of numbers are among them."""


def check_scores(model: RowwiseScores, features: Features, target: Target) -> None:
    """Refuse, before any record is read, a model that fails on some row, or that has another number of scores than classes:
    rows with every key, and with numbers all over their bounds. Tables that were cut off would fail on records in them."""
    rows = max([PROBED_ROWS, *(each.size for each in features.categories)])
    numbers = np.rint(np.linspace(-HALF, HALF, rows)).astype(np.int32)
    codes = [np.arange(rows, dtype=np.int32) % each.size for each in features.categories]
    empty = np.zeros((rows, 0), np.int32)
    probe = Design(
        features, np.repeat(numbers[:, None], len(features.numbers), axis=1), np.stack(codes, 1) if codes else empty
    )
    wanted = len(target.keys) if isinstance(target, CategoryFeature) else 1
    try:
        with np.errstate(all="ignore"):
            found = model.score_rows(probe)
        fits = found.shape[0] == rows and found.dtype == np.float64
        fits &= found.shape[1] == wanted if target is not None else found.shape[1] > 0
    except Exception:  # on invented rows: it says nothing about private ones
        fits = False
    if not fits:
        reason = "it fails on some rows, or has scores of another shape than its fit gave"
        raise BadParameter("model", "changed", reason, "fit it again")


def to_probabilities(scores: Floats) -> Floats:
    """Return softmax of the scores of each row, for rows that the caller holds.

    >>> to_probabilities(np.array([[0.0, 0.0], [1000.0, 0.0]])).tolist()
    [[0.5, 0.5], [1.0, 0.0]]
    """
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares: Floats = weights / weights.sum(axis=1, keepdims=True)
    return shares


def choose_first_best(scores: Floats) -> NDArray[np.intp]:
    """Return the position of the largest score of each row, the first of equal ones."""
    best: NDArray[np.intp] = np.argmax(scores, axis=1)
    return best


def multiply_rowwise(design: Design, weights: Floats) -> Floats:
    """Return X·w for each output, in units of the design, summed column by column: each row on its own, to the last bit."""
    scores = np.repeat(weights[None, :, 0], design.rows, axis=0)
    for place in range(design.numbers.shape[1]):
        scores += design.numbers[:, place, None] * (weights[None, :, 1 + place] / ONE)
    for place, offset in enumerate(design.features.offsets):
        scores += weights.T[offset + design.codes[:, place].astype(np.intp)]
    return scores


def score_linear_model(design: Design, weights: Floats, target: Target) -> Floats:
    """Return the row-wise scores of a linear model: one for each class, or the number in half-ranges."""
    scores = multiply_rowwise(design, weights)
    if isinstance(target, NumericFeature):
        return np.clip(2 * scores, -1, 1)
    return np.hstack([np.zeros_like(scores), scores]) if scores.shape[1] == 1 else scores


class Classifying:
    """`predict`, `predict_proba` and `predict_log_proba` from row-wise scores."""

    classes_: NDArray[Any]

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most likely class of each row. The rows are the caller's own."""
        best = choose_first_best(self._score(X))
        labels: NDArray[Any] = self.classes_[best]
        return labels

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class, for each row."""
        return to_probabilities(self._score(X))

    def predict_log_proba(self, X: Any) -> Floats:
        """Return the logarithms of the probabilities."""
        with np.errstate(divide="ignore"):
            logs: Floats = np.log(self.predict_proba(X))
        return logs

    def _score(self, X: Any) -> Floats:
        scores: Floats = self.score_rows(self._encode(X))  # type: ignore[attr-defined]
        return scores


# Functions of a row's own scores, by tables: public constants, no exponential or logarithm of a row

LOGIT_STEPS = 1 << 10
"""Steps of a unit of the logarithm in the tables below."""

LOWEST = -16
"""Below this difference from the largest score of a row, a class has the least probability of the table."""

EXP_BITS = 24
EXP_TABLE: NDArray[np.int64] = np.rint(np.exp(np.arange(LOWEST * LOGIT_STEPS, 1) / LOGIT_STEPS) * (1 << EXP_BITS)).astype(
    np.int64
)
"""e^z for z from −16 to 0, in units of 2⁻²⁴."""

RATIO_BITS = 20


def look_up_losses(scores: Floats, target: NDArray[np.int64], highest: float, levels: int) -> NDArray[np.int64]:
    """Return −ln of the probability of each row's own class, clamped at `highest`, in steps of `highest`/`levels`.

    Sums and quotients are those of integers, and the logarithm is a search among public thresholds.

    >>> look_up_losses(np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]]), np.array([0, 0, 0]), 4.0, 4000).tolist()
    [693, 0, 4000]
    """
    below = np.maximum(np.floor((scores - scores.max(axis=1, keepdims=True)) * LOGIT_STEPS), LOWEST * LOGIT_STEPS)
    weights = EXP_TABLE[(below - LOWEST * LOGIT_STEPS).astype(np.intp)]
    own = np.take_along_axis(weights, target[:, None], axis=1)[:, 0]
    ratios = (weights.sum(axis=1) << RATIO_BITS) // own
    thresholds = np.exp(np.arange(1, levels + 1) * (highest / levels)) * float(1 << RATIO_BITS)
    found: NDArray[np.int64] = np.searchsorted(np.ceil(thresholds).astype(np.int64), ratios, side="right").astype(np.int64)
    return found
