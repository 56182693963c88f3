"""Every mechanism and every aggregate of discreet, attacked on its own claim: nothing is found, the resolution is printed.

Short here, at 1 − 1e-7 each; with ten million answers at night.
"""

from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pytest

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
    pure,
)
from discreet.auditor.claims import Claim
from discreet.auditor.targets import SampledMechanism
from discreet.noise import SYSTEM, Bits, selection
from discreet.query.answer import ExactTotals, Receipt, release
from discreet.session.session import Session
from discreet.testing import seeded_bits

SURE = 1 - 1e-7
SHORT, LONG = 60_000, 10_000_000
THREE = Sensitivity(l0=3, linf=1)


def exponential(chooser: Exponential) -> SampledMechanism:
    return SampledMechanism(lambda scores, n: races(chooser, scores, n))


def races(chooser: Exponential, scores: list[int], n: int, bits: Bits = SYSTEM) -> Any:
    """`chooser.release(scores)` n times over: the same words through the same steps, all races at once."""
    deficits = [chooser.rate * (max(scores) - score) for score in scores]
    words = bits.words(n * len(scores))
    low, high = (keys.reshape(n, -1) for keys in selection._float_key_bounds(deficits * n, words, chooser.rule))
    close = high >= low.max(axis=1, keepdims=True)
    found = close.argmax(axis=1)
    for i in np.flatnonzero(close.sum(axis=1) > 1):
        own = words.reshape(n, -1)[i]
        runners = {int(j): selection.LazyUniform(bits, int(own[j]), 64) for j in np.flatnonzero(close[i])}
        found[i] = selection.settle(runners, deficits, chooser.rule)
    return found


@pytest.mark.parametrize("law", SelectionRule)
def test_races_side_by_side_are_the_races_one_by_one(law: SelectionRule) -> None:
    chooser, one, many = Exponential.for_epsilon(1, 1, law), seeded_bits(5), seeded_bits(5)
    assert races(chooser, [0, 1, 3], 2_000, many).tolist() == [chooser.release([0, 1, 3], one) for _ in range(2_000)]


def sparse(rule: SparseVector) -> SampledMechanism:
    return SampledMechanism(lambda answers, n: rule.run_batch(np.repeat(np.array([answers], np.int64), n, axis=0)))


REALS = Laplace.for_epsilon(1, sensitivity=0.3, reals=True)
SMOOTH = Gaussian.for_epsilon(1, 1e-4, sensitivity=0.3, reals=True)
SELECTS = Threshold.for_epsilon(1, 0.01, sensitivity=1)
KEEPS = OptimalPartitionSelection.for_epsilon(1, 0.01, sensitivity=1)
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
    "Threshold": (SELECTS, SELECTS.event(1), [(0, 1), (3, 4)]),
    "OptimalThreshold": (KEEPS, KEEPS.event(1), [(0, 1), (3, 4)]),
    "SparseVector": (sparse(SPARSE), SPARSE.event(1), [([2] * 6, [3] * 6), ([1, 2, 3, 1, 2, 3], [2, 1, 2, 2, 1, 2])]),
    "Exponential": (exponential(Exponential.for_epsilon(1, 1)), 1, SCORES),
    "permute-and-flip": (exponential(FLIPS), 1, SCORES),
}


def quiet(mechanism: Any, claim: Claim, pairs: list[Any], samples: int) -> None:
    found = audit(mechanism, claim, pairs, confidence=SURE, samples=samples)
    print(f"resolution {found.resolution:.2%}. {found}")
    assert not found.violation


@pytest.mark.parametrize("name", MECHANISMS)
def test_mechanisms(name: str) -> None:
    quiet(*MECHANISMS[name], SHORT)


@pytest.mark.nightly
@pytest.mark.parametrize("name", MECHANISMS)
def test_mechanisms_at_length(name: str) -> None:
    quiet(*MECHANISMS[name], LONG)


# -- whole questions: the noise of one group, as often as there are groups that all hold the same exact totals ---------

AGGREGATES = {
    "COUNT(*)": "high", "COUNT(DISTINCT id)": "high", "COUNT(pay)": "high", "SUM(pay)": "high", "AVG(pay)": "low",
    "VARIANCE(pay)": "low", "STDDEV(pay)": "high", "MEDIAN(pay)": "high", "QUANTILE(pay, 0.9)": "low",
    "HISTOGRAM(pay, 0, 50, 100, 200)": "high",
}  # fmt: skip
GROUPS = 2_000


def opened(extra: str, delta: Any, keys: tuple[str, ...]) -> Session:
    """Five people, and perhaps one more at an end of the range."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE people AS SELECT i AS id, '0' AS dept, (40 + 20 * i)::DOUBLE AS pay FROM range(5) t(i)")
    if extra:
        connection.execute("INSERT INTO people VALUES (9, '0', ?)", [200.0 if extra == "high" else 0.0])
    return connect(
        connection, epsilon=1000, delta=delta, unit="id", table="people", bounds={"pay": (0, 200)}, keys={"dept": keys},
        unique=True,
    )  # fmt: skip


def asked(aggregate: str, delta: Any) -> tuple[SampledMechanism, Claim]:
    """A sampler of answers, intervals included, for the table with and without one person; and the price of one answer."""
    many = tuple(map(str, range(GROUPS)))
    question = f"SELECT dept, {aggregate} AS v FROM people GROUP BY dept"
    planned = opened("", delta, many).calibrate(question, epsilon=1)
    exact: dict[str, ExactTotals] = {}
    for extra in ("", AGGREGATES[aggregate]):
        found = opened(extra, delta, ("0",)).engine.run(planned.bounded)
        exact[extra] = ExactTotals(list(found.totals), {c: list(rows) for c, rows in found.cell_counts.items()})

    def everywhere(extra: str) -> ExactTotals:
        one = exact[extra]
        return ExactTotals(
            [(row, (key,)) for row, _ in one.totals for key in many],
            {c: [(n, cell, (key,)) for n, cell, _ in rows for key in many] for c, rows in one.cell_counts.items()},
        )

    kept: dict[str, Any] = {}  # answers that were drawn and not yet used

    def batch(extra: str) -> Any:
        answer = release(planned, everywhere(extra), Receipt(1, planned.event))
        return np.array([[part for cell in row for part in (cell.value, cell.lower, cell.upper)] for _, row in answer.rows])

    def sample(extra: str, n: int) -> Any:
        parts = [kept[extra]] if extra in kept else []
        while sum(map(len, parts)) < n:
            parts.append(batch(extra))
        found = np.concatenate(parts)
        kept[extra] = found[n:]
        return found[:n]

    return SampledMechanism(sample), planned.event


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_aggregates(aggregate: str) -> None:
    mechanism, loss = asked(aggregate, 0)
    assert pure(loss) <= 1  # type: ignore[arg-type]
    quiet(mechanism, 1, [("", AGGREGATES[aggregate])], 24_000)


@pytest.mark.nightly
@pytest.mark.parametrize(("place", "aggregate"), list(enumerate(AGGREGATES)))
def test_aggregates_at_length(place: int, aggregate: str) -> None:
    """One after the other under pure and approximate privacy; `test_aggregates` has them all under pure."""
    mechanism, loss = asked(aggregate, (0, 1e-6)[place % 2])
    quiet(mechanism, loss, [("", AGGREGATES[aggregate])], LONG)


def test_an_aggregate_with_too_little_noise_is_found() -> None:
    """The same attack on the same answers notices if the claim is a third of the price."""
    mechanism, _ = asked("SUM(pay)", 0)
    assert audit(mechanism, Fraction(1, 3), [("", "high")], confidence=SURE, samples=24_000).violation
