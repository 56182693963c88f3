"""The law of Poisson sampling, tested on the batches of a run: cheaper than any attack, and at once fatal to shuffling.

The amplified cost of DP-SGD holds if each of n records is in each of T batches independently with probability q. Then

| statistic | its law |
|---|---|
| how many records there are in all batches | Bin(nT, q) |
| how many batches have a size at least t away from nq | Bin(T, P[|Bin(n, q) − nq| ≥ t]) |
| how many records are in a number of batches at least t away from Tq | Bin(n, P[|Bin(T, q) − Tq| ≥ t]) |
| how often records 1 and 2, 3 and 4, … share a batch | Bin(T⌊n/2⌋, q²) |
| how often a record is in batches 1 and 2, 3 and 4, … | Bin(n⌊T/2⌋, q²) |

Batches of a fixed size have no variance, and in shuffled epochs each record is in equally many: both show in the second and
third row, after about forty batches or records.

**False alarms.** A χ² test at 10⁻⁹ would trust the tail of a limit. All counts above are exactly binomial, so each test is
exact: two-sided, at α divided by twice the number of tests (Bonferroni). Correct batches are refuted with probability at
most α, which is 10⁻⁹ unless stated.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet._numbers import Number, check_int, to_rational
from discreet.auditor.evidence import ROUNDING_MARGIN
from discreet.auditor.finding import Check
from discreet.errors import BadParameter

Batches: TypeAlias = Sequence[Sequence[int] | NDArray[np.int64]]
"""For each batch, the positions of its records."""

FALSE_ALARMS = 1e-9
SPREAD_SHARES = (0.2, 0.5, 0.8)
"""Thresholds t are chosen so that about these shares of the sizes are at least t away from their mean."""


@dataclass(frozen=True)
class CountTest:
    """A count that is binomial if the batches are Poisson samples."""

    what: str
    count: int
    trials: int
    probability: float

    @property
    def p_value(self) -> float:
        """Twice the probability of a count that is as extreme, on its side."""
        from scipy.stats import binom

        low = float(binom.cdf(self.count, self.trials, self.probability))
        high = float(binom.sf(self.count - 1, self.trials, self.probability))
        return min(1.0, 2 * min(low, high) * (1 + ROUNDING_MARGIN))

    def __str__(self) -> str:
        expected = self.trials * self.probability
        return f"{self.what}: {self.count:,} of {self.trials:,}, where about {expected:,.6g} are expected"


def check_batches(batches: Batches, records: int, rate: Number, alpha: float = FALSE_ALARMS) -> Check:
    """Test whether batches, given as positions of records, are Poisson samples at this rate.

    >>> from discreet.noise import bernoulli
    >>> poisson = [np.flatnonzero(bernoulli(Fraction(1, 10), 200)) for _ in range(100)]
    >>> check_batches(poisson, 200, Fraction(1, 10)).violation
    False
    >>> fixed = [range(20 * (i % 10), 20 * (i % 10) + 20) for i in range(100)]
    >>> check_batches(fixed, 200, Fraction(1, 10)).violation
    True
    """
    included = np.zeros((len(batches), check_int(records, "records", 1)), bool)
    for row, batch in zip(included, batches, strict=True):
        places = np.asarray(batch, np.int64)
        if len(np.unique(places)) != len(places) or ((places < 0) | (places >= records)).any():
            return Check("sampler", "a batch holds a record twice, or one that does not exist")
        row[places] = True
    return check_inclusions(included, rate, alpha)


def check_inclusions(included: NDArray[np.bool_], rate: Number, alpha: float = FALSE_ALARMS) -> Check:
    """Test a matrix with a row for each batch and a column for each record, which says who was in."""
    exact = to_rational(rate, "rate")
    if not 0 < exact <= 1:
        raise BadParameter("rate", rate, "not a probability", "give the rate of inclusion, such as 1/100")
    if included.ndim != 2 or not included.size:
        raise BadParameter("batches", f"of shape {included.shape}", "there is nothing to test", "give at least one batch")
    tests = list(list_count_tests(included, exact))
    failed = [each for each in tests if each.p_value <= alpha / len(tests)]
    steps, records = included.shape
    passed = f"{steps} batches of {records} records are as Poisson samples are, in {len(tests)} exact tests"
    worst = min(failed, key=lambda each: each.p_value, default=None)
    return Check("sampler", "" if worst is None else f"not a Poisson sample: {worst}", passed)


def list_count_tests(included: NDArray[np.bool_], rate: Fraction) -> Iterator[CountTest]:
    """Yield the counts of the table above."""
    steps, records = included.shape
    q = float(rate)
    yield CountTest("inclusions", int(included.sum()), steps * records, q)
    yield from _test_spread("batches whose size is far from the mean", included.sum(1), records, rate)
    yield from _test_spread("records that are in many or few batches", included.sum(0), steps, rate)
    if records > 1:
        both = included[:, 0 : records - 1 : 2] & included[:, 1:records:2]
        yield CountTest("pairs of records in one batch", int(both.sum()), both.size, q * q)
    if steps > 1:
        both = included[0 : steps - 1 : 2] & included[1:steps:2]
        yield CountTest("records in two successive batches", int(both.sum()), both.size, q * q)


def _test_spread(what: str, counts: NDArray[np.int64], trials: int, rate: Fraction) -> Iterator[CountTest]:
    """Count those of some independent Bin(trials, rate) that are at least t away from their mean, for some t."""
    from scipy.stats import binom

    away = [abs(k - trials * rate) for k in range(trials + 1)]  # exact: a count on the threshold is on it
    probabilities = binom.pmf(np.arange(trials + 1), trials, float(rate))
    order = sorted(set(away), reverse=True)
    mass = dict.fromkeys(order, 0.0)
    for distance, probability in zip(away, probabilities, strict=True):
        mass[distance] += float(probability)
    tails = dict(zip(order, np.cumsum([mass[distance] for distance in order]), strict=True))
    chosen = {min(order, key=lambda t: abs(tails[t] - share)) for share in SPREAD_SHARES}
    for threshold in sorted(chosen):
        if tails[threshold] < 1 - 1e-12:
            far = sum(away[int(count)] >= threshold for count in counts)
            yield CountTest(what, far, len(counts), float(tails[threshold]))
