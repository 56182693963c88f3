"""The errors that a plan predicts, simulated 10,000 times with the mechanisms themselves."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet import Count, Histogram, Mean, Proportion, RandomizedResponse, Sum
from discreet.noise import Bits, bernoulli
from discreet.planner import PlannerQuery, Row

REPETITIONS = 10_000
STANDARD_ERRORS = 6
"""A correct prediction is refuted in two of 10⁹ draws of one check; the seeds are fixed, so a pass stays a pass."""
Errors = NDArray[np.float64]


@dataclass(frozen=True)
class PredictedErrors:
    """What is predicted. A half-width smaller by more than a step would have been too small."""

    confidence: float
    each: float
    largest: float
    rmse: float
    step: float
    is_joint_exact: bool = True


def find_refuted(predicted: PredictedErrors, errors: Errors) -> Iterator[str]:
    """Say which parts of a prediction the errors, one row per repetition, refute."""
    sizes = np.abs(errors)
    for name, seen, half, exact in (
        ("each", sizes[:, 0], predicted.each, True),
        ("largest", sizes.max(axis=1), predicted.largest, predicted.is_joint_exact),
    ):
        tolerance = STANDARD_ERRORS * (predicted.confidence * (1 - predicted.confidence) / len(seen)) ** 0.5
        if (seen <= half * (1 + 1e-9)).mean() < predicted.confidence - tolerance:
            yield f"{name}: the half-width is too small"
        if exact and (seen <= (half - predicted.step) * (1 - 1e-9)).mean() > predicted.confidence + tolerance:
            yield f"{name}: the half-width is too large"
    squares = errors[:, 0] ** 2
    if abs(squares.mean() - predicted.rmse**2) > STANDARD_ERRORS * squares.std() / len(squares) ** 0.5:
        yield "rmse"


def predict_errors(row: Row, query: PlannerQuery, confidence: float) -> PredictedErrors:
    """Return what the plan predicts."""
    divisor = row.n if isinstance(query, Proportion | Mean) and row.n else 1
    if isinstance(row.noise, RandomizedResponse):
        width = float(query.upper - query.lower) if isinstance(query, Sum | Mean) else 1.0
        step = 2 * width / float(row.noise.truth - row.noise.other)
    else:
        real = isinstance(query, Sum | Mean) and not query.whole
        step = 0.0 if real else 2.0 if row.mechanism == "discrete Gaussian" and row.scale > 1000 else 1.0
    by_union_bound = isinstance(query, Histogram) and isinstance(row.noise, RandomizedResponse)
    return PredictedErrors(confidence, row.each, row.half_width, row.rmse, step / divisor, not by_union_bound)


def simulate_errors(row: Row, query: PlannerQuery, queries: int, bits: Bits, noise: object = None) -> Errors:
    """Return the errors of 10,000 repetitions: of noisy statistics, or of reports by each person."""
    mechanism = row.noise if noise is None else noise
    if isinstance(mechanism, RandomizedResponse):
        assert row.n is not None
        return np.hstack([_simulate_reports(mechanism, query, row.n, bits) for _ in range(queries)])
    cells = query.cells if isinstance(query, Histogram) else 1
    real = isinstance(query, Sum | Mean) and not query.whole
    truth = np.full((REPETITIONS, cells * queries), 12_345.678 if real else 12_345)
    divisor = row.n if isinstance(query, Proportion | Mean) and row.n else 1
    noisy = mechanism.release(truth, bits)  # type: ignore[attr-defined]
    return np.asarray((noisy - truth) / divisor, np.float64)


def _simulate_reports(mechanism: RandomizedResponse, query: PlannerQuery, n: int, bits: Bits) -> Errors:
    if isinstance(query, Sum | Mean):  # all have the middle of the bounds, where a bit is a fair coin
        width, true = float(query.upper - query.lower), np.array([n / 2])
        given = bernoulli(0.5, REPETITIONS * n, bits).astype(np.int64)
    elif isinstance(query, Histogram):  # all people in the first cell, or all in the last: one of the two is the worst
        width, true = 1.0, np.zeros(query.cells)
        given, true[_worst_cell(mechanism, n)] = np.full(REPETITIONS * n, _worst_cell(mechanism, n)), n
    else:
        width, true = 1.0, np.array([n // 2])
        given = np.tile(np.arange(n) < n // 2, REPETITIONS).astype(np.int64)
    reports = mechanism.release(given, bits).reshape(REPETITIONS, n)
    estimates = np.array([mechanism.estimate(play) for play in reports])
    compared = estimates if isinstance(query, Histogram) else estimates[:, 1:]
    return (compared - true) * width / (n if isinstance(query, Proportion | Mean) else 1)


def _worst_cell(mechanism: RandomizedResponse, n: int) -> int:
    """Return the cell of all people: the first, which is looked at alone, if that makes its error larger, else the last."""
    return 0 if mechanism.standard_deviation(n, n) >= mechanism.standard_deviation(n, 0) else mechanism.choices - 1


QUERIES: dict[str, PlannerQuery] = {
    "count": Count(),
    "proportion": Proportion(),
    "sum": Sum(-5, 10),
    "sum of whole": Sum(0, 3, whole=True),
    "mean": Mean(0, 100),
    "mean of whole": Mean(0, 100, whole=True),
    "histogram": Histogram(12),
}
