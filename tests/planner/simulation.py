"""What a plan promises, played out 10,000 times with the mechanisms themselves."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet import Count, Histogram, Mean, Proportion, RandomizedResponse, Sum
from discreet.noise import Bits, bernoulli
from discreet.planner import PlannerQuery, Row

REPETITIONS = 10_000
STANDARD_ERRORS = (
    6  # a right promise is broken in two of 10⁹ draws of one check; the seeds are fixed, so a pass stays a pass
)
Errors = NDArray[np.float64]


@dataclass(frozen=True)
class Promise:
    """What is said about the errors. Less than the half-width, by a step and more, would have been too little."""

    confidence: float
    each: float
    largest: float
    rmse: float
    step: float
    tight_together: bool = True


def broken(promise: Promise, errors: Errors) -> Iterator[str]:
    """Which parts of the promise the errors, one row a repetition, refute."""
    off = np.abs(errors)
    for name, seen, half, tight in (
        ("each", off[:, 0], promise.each, True),
        ("largest", off.max(axis=1), promise.largest, promise.tight_together),
    ):
        doubt = STANDARD_ERRORS * (promise.confidence * (1 - promise.confidence) / len(seen)) ** 0.5
        if (seen <= half * (1 + 1e-9)).mean() < promise.confidence - doubt:
            yield f"{name}: the half-width is too small"
        if tight and (seen <= (half - promise.step) * (1 - 1e-9)).mean() > promise.confidence + doubt:
            yield f"{name}: the half-width is too large"
    squares = errors[:, 0] ** 2
    if abs(squares.mean() - promise.rmse**2) > STANDARD_ERRORS * squares.std() / len(squares) ** 0.5:
        yield "rmse"


def promise_of(row: Row, question: PlannerQuery, confidence: float) -> Promise:
    """As the plan has it."""
    divisor = row.n if isinstance(question, Proportion | Mean) and row.n else 1
    if isinstance(row.noise, RandomizedResponse):
        width = float(question.upper - question.lower) if isinstance(question, Sum | Mean) else 1.0
        step = 2 * width / float(row.noise.truth - row.noise.other)
    else:
        real = isinstance(question, Sum | Mean) and not question.whole
        step = 0.0 if real else 2.0 if row.mechanism == "discrete Gaussian" and row.scale > 1000 else 1.0
    tight = not (isinstance(question, Histogram) and isinstance(row.noise, RandomizedResponse))  # there a union bound
    return Promise(confidence, row.each, row.half_width, row.rmse, step / divisor, tight)


def errors_of(row: Row, question: PlannerQuery, queries: int, bits: Bits, noise: object = None) -> Errors:
    """The errors of 10,000 plays: the totals are noised, or everybody answers for themselves."""
    mechanism = row.noise if noise is None else noise
    if isinstance(mechanism, RandomizedResponse):
        assert row.n is not None
        return np.hstack([_reported(mechanism, question, row.n, bits) for _ in range(queries)])
    cells = question.cells if isinstance(question, Histogram) else 1
    real = isinstance(question, Sum | Mean) and not question.whole
    truth = np.full((REPETITIONS, cells * queries), 12_345.678 if real else 12_345)
    divisor = row.n if isinstance(question, Proportion | Mean) and row.n else 1
    released = mechanism.release(truth, bits)  # type: ignore[attr-defined]
    return np.asarray((released - truth) / divisor, np.float64)


def _reported(mechanism: RandomizedResponse, question: PlannerQuery, n: int, bits: Bits) -> Errors:
    if isinstance(question, Sum | Mean):  # everybody has the middle of the bounds, where a bit is a fair coin
        width, true = float(question.upper - question.lower), np.array([n / 2])
        given = bernoulli(0.5, REPETITIONS * n, bits).astype(np.int64)
    elif isinstance(question, Histogram):  # nobody is in the first cell, everybody in the last: one of them is the worst
        width, true = 1.0, np.zeros(question.cells)
        given, true[_worst(mechanism, n)] = np.full(REPETITIONS * n, _worst(mechanism, n)), n
    else:
        width, true = 1.0, np.array([n // 2])
        given = np.tile(np.arange(n) < n // 2, REPETITIONS).astype(np.int64)
    reports = mechanism.release(given, bits).reshape(REPETITIONS, n)
    found = np.array([mechanism.estimate(play) for play in reports])
    wanted = found if isinstance(question, Histogram) else found[:, 1:]
    return (wanted - true) * width / (n if isinstance(question, Proportion | Mean) else 1)


def _worst(mechanism: RandomizedResponse, n: int) -> int:
    """Who stands in the first cell, whose error is looked at alone: all of them, if that makes it wider, or none."""
    return 0 if mechanism.standard_deviation(n, n) >= mechanism.standard_deviation(n, 0) else mechanism.choices - 1


QUESTIONS: dict[str, PlannerQuery] = {
    "count": Count(),
    "proportion": Proportion(),
    "sum": Sum(-5, 10),
    "sum of whole": Sum(0, 3, whole=True),
    "mean": Mean(0, 100),
    "mean of whole": Mean(0, 100, whole=True),
    "histogram": Histogram(12),
}
