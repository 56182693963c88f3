"""What the tests audit: the targets, every mechanism of discreet on its own claim, and whole queries per aggregate."""

from fractions import Fraction
from typing import Any

import duckdb
import numpy as np

from discreet import (
    Binomial,
    DiscreteGaussian,
    Exponential,
    Gaussian,
    Laplace,
    OptimalPartitionSelection,
    RandomizedResponse,
    SelectionRule,
    Sensitivity,
    SparseVector,
    Threshold,
    TruncatedGeometric,
    audit,
    connect,
)
from discreet.accounting.currencies import Receipt
from discreet.auditor import Finding
from discreet.auditor.claims import Claim
from discreet.auditor.targets import SampledMechanism, Target
from discreet.noise import SYSTEM, Bits, selection
from discreet.query.answer import ExactTotals, release
from discreet.session.session import Session

CONFIDENCE = 1 - 1e-7
SHORT, LONG = 60_000, 10_000_000
"""Samples of an audit in a test, and in a campaign."""


# -- targets ----------------------------------------------------------------------------------------------------------------

CALLED = 60_000
DRAWN = 5_000_000


def audit_target(target: Target, confidence: float, drawn: int = DRAWN, called: int = CALLED) -> Finding:
    bulk = hasattr(target.mechanism, "sample") or not callable(target.mechanism)
    samples = drawn if bulk else called
    return audit(target.mechanism, target.claim, target.neighbours, confidence=confidence, samples=samples)


# -- mechanisms -------------------------------------------------------------------------------------------------------------


def sample_exponential(chooser: Exponential) -> SampledMechanism:
    return SampledMechanism(lambda scores, n: select_in_bulk(chooser, scores, n))


def select_in_bulk(chooser: Exponential, scores: list[int], n: int, bits: Bits = SYSTEM) -> Any:
    """`chooser.release(scores)` n times: the same words through the same steps, all selections at once."""
    deficits = [chooser.rate * (max(scores) - score) for score in scores]
    words = bits.words(n * len(scores))
    low, high = (keys.reshape(n, -1) for keys in selection._float_key_bounds(deficits * n, words, chooser.rule))
    close = high >= low.max(axis=1, keepdims=True)
    chosen = close.argmax(axis=1)
    for i in np.flatnonzero(close.sum(axis=1) > 1):
        own = words.reshape(n, -1)[i]
        undecided = {int(j): selection.LazyUniform(bits, int(own[j]), 64) for j in np.flatnonzero(close[i])}
        chosen[i] = selection.settle(undecided, deficits, chooser.rule)
    return chosen


def sample_sparse(rule: SparseVector) -> SampledMechanism:
    return SampledMechanism(lambda answers, n: rule.run_batch(np.repeat(np.array([answers], np.int64), n, axis=0)))


THREE = Sensitivity(l0=3, linf=1)
REALS = Laplace.for_epsilon(1, sensitivity=0.3, reals=True)
SMOOTH = Gaussian.for_epsilon(1, 1e-4, sensitivity=0.3, reals=True)
THRESHOLD = Threshold.for_epsilon(1, 0.01, sensitivity=1)
PARTITIONS = OptimalPartitionSelection.for_epsilon(1, 0.01, sensitivity=1)
SPARSE = SparseVector.for_epsilon(1, sensitivity=1, threshold=2, most=2)
FLIPS = Exponential.for_epsilon(1, 1, SelectionRule.PERMUTE_AND_FLIP)
SCORES = [([0, 1, 2], [1, 0, 1]), ([0, 0, 0], [1, 1, 0])]
MECHANISMS: dict[str, tuple[Any, Claim, list[Any]]] = {
    "Laplace": (Laplace(1), Laplace(1).event(1), [(0, 1), (2**62, 2**62 + 1)]),
    "Laplace on reals": (REALS, REALS.event(0.3, grid=REALS.grid), [(0.0, 0.3), (1 / 3, 1 / 3 + 0.3)]),
    "Laplace on three": (Laplace(3), Laplace(3).event(THREE), [([0, 0, 0], [1, 1, 1]), ([0, 0, 0], [1, -1, 1])]),
    "Gaussian": (Gaussian(2), Gaussian(2).event(1), [(0, 1)]),
    "Gaussian on reals": (SMOOTH, SMOOTH.event(0.3, grid=SMOOTH.grid), [(0.0, 0.3), (0.1, 0.4)]),
    "Gaussian on three": (Gaussian(2), Gaussian(2).event(THREE), [([0, 0, 0], [1, 1, 1])]),
    "DiscreteGaussian": (DiscreteGaussian(1), DiscreteGaussian(1).event(1), [(0, 1)]),
    "TruncatedGeometric": (TruncatedGeometric(1, 0, 5), TruncatedGeometric(1, 0, 5).event(1), [(0, 1), (2, 3), (4, 5)]),
    "Binomial": (Binomial(20), Binomial(20).event(1), [(0, 1)]),
    "RandomizedResponse": (RandomizedResponse(Fraction(3, 4)), RandomizedResponse(Fraction(3, 4)).event(), [(0, 1)]),
    "RandomizedResponse of 5": (
        RandomizedResponse(Fraction(1, 2), 5),
        RandomizedResponse(Fraction(1, 2), 5).event(),
        [(0, 3)],
    ),
    "Threshold": (THRESHOLD, THRESHOLD.event(1), [(0, 1), (3, 4)]),
    "OptimalPartitionSelection": (PARTITIONS, PARTITIONS.event(1), [(0, 1), (3, 4)]),
    "SparseVector": (
        sample_sparse(SPARSE),
        SPARSE.event(1),
        [([2] * 6, [3] * 6), ([1, 2, 3, 1, 2, 3], [2, 1, 2, 2, 1, 2])],
    ),
    "Exponential": (sample_exponential(Exponential.for_epsilon(1, 1)), 1, SCORES),
    "permute-and-flip": (sample_exponential(FLIPS), 1, SCORES),
}


def assert_not_refuted(mechanism: Any, claim: Claim, pairs: list[Any], samples: int) -> None:
    found = audit(mechanism, claim, pairs, confidence=CONFIDENCE, samples=samples)
    print(f"resolution {found.resolution:.2%}. {found}")
    assert not found.violation


# -- whole queries: the noise of one group, drawn for as many groups, all with the same exact totals ------------------------

AGGREGATES = {
    "COUNT(*)": "high", "COUNT(DISTINCT id)": "high", "COUNT(pay)": "high", "SUM(pay)": "high", "AVG(pay)": "low",
    "VARIANCE(pay)": "low", "STDDEV(pay)": "high", "MEDIAN(pay)": "high", "QUANTILE(pay, 0.9)": "low",
    "HISTOGRAM(pay, 0, 50, 100, 200)": "high", "COVAR_POP(pay, id)": "high", "CORR(pay, id)": "low",
}  # fmt: skip
"""Each aggregate, and at which end of the range one more person moves it."""
GROUPS = 2_000


def open_session(extra: str, delta: Any, keys: tuple[str, ...]) -> Session:
    """Five people, and one more at an end of the range unless `extra` is empty."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE people AS SELECT i AS id, '0' AS dept, (40 + 20 * i)::DOUBLE AS pay FROM range(5) t(i)")
    if extra:
        connection.execute("INSERT INTO people VALUES (9, '0', ?)", [200.0 if extra == "high" else 0.0])
    return connect(
        connection, epsilon=1000, delta=delta, unit="id", table="people", bounds={"pay": (0, 200), "id": (0, 9)},
        keys={"dept": keys}, unique=True,
    )  # fmt: skip


def sample_query(aggregate: str, delta: Any) -> tuple[SampledMechanism, Claim]:
    """A sampler of answers, intervals included, on the table with and without one person; and the event of one answer."""
    many = tuple(map(str, range(GROUPS)))
    query = f"SELECT dept, {aggregate} AS v FROM people GROUP BY dept"
    measurement = open_session("", delta, many).calibrate(query, epsilon=1)
    exact: dict[str, ExactTotals] = {}
    for extra in ("", AGGREGATES[aggregate]):
        totals = open_session(extra, delta, ("0",)).engine.run(measurement.bounded)
        exact[extra] = ExactTotals(list(totals.totals), {c: list(rows) for c, rows in totals.cell_counts.items()})

    def repeat_group(extra: str) -> ExactTotals:
        one = exact[extra]
        return ExactTotals(
            [(row, (key,)) for row, _ in one.totals for key in many],
            {c: [(n, cell, (key,)) for n, cell, _ in rows for key in many] for c, rows in one.cell_counts.items()},
        )

    unused: dict[str, Any] = {}  # answers that were drawn and not yet used

    def draw_batch(extra: str) -> Any:
        answer = release(measurement, repeat_group(extra), Receipt(1, measurement.event))
        return np.array([[part for cell in row for part in (cell.value, cell.lower, cell.upper)] for _, row in answer.rows])

    def sample(extra: str, n: int) -> Any:
        parts = [unused[extra]] if extra in unused else []
        while sum(map(len, parts)) < n:
            parts.append(draw_batch(extra))
        drawn = np.concatenate(parts)
        unused[extra] = drawn[n:]
        return drawn[:n]

    return SampledMechanism(sample), measurement.event
