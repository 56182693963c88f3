"""From noisy integers to numbers with intervals, in whole numbers until the very end.

A cell's interval holds everything that its totals can be if each lies within its own error of the noisy one; divisions are
floored below and raised above, at 2^-40 of a grid step, and the last step to a double goes outward too.

What `reliable` promises. An estimate is flagged if its half-width is at most a tenth of its value, the value lies in its own
interval and is one that the statistic can have, and, for averages, variances and quantiles, the noisy count behind it is at
least ten times its own error. All of it is computed from noisy numbers, so the flag costs nothing.

**Proof** that a cell is flagged and wrong with probability at most 1 − confidence, whatever the data. Where the statistic
exists, a wrong cell is one whose interval misses it, which happens no more often than that. Where it does not exist (the
average or a quantile of no rows), every flag is wrong; but a flag needs a noisy count of at least 10e, where the noise X of
the count exceeds e with probability at most (1 − confidence)/2. Flags on tiny groups are in fact far rarer: X is symmetric
with a log-concave law, so ln P(X ≥ x) is concave, and a group of m ≤ e rows is flagged with probability at most
P(X ≥ 9e) ≤ ½·(1 − confidence)^(9e/(e+1)). No rule on noisy numbers can promise that *of the flagged cells* few are wrong,
whatever the data: where the truth is just too small for a flag, only noise raises one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import isqrt, ldexp
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from discreet.exact import nearest_float
from discreet.mechanisms.quantile import exact_confidence
from discreet.query import plan
from discreet.query.bound import Bounded
from discreet.query.measure import Measurement
from discreet.query.measures import Counts, Measure, Scalar, Total, centre_of, measures_of, tree_of, width_of
from discreet.query.quantiles import Reader
from discreet.query.span import Span, span_of

FINE = 40  # bits below a grid step that survive a division


@dataclass(frozen=True, slots=True)
class Cell:
    """One number of the answer with its interval; `reliable` as the head of this file says."""

    value: float
    lower: float
    upper: float
    reliable: bool

    def moved(self, value: float, lower: float, upper: float) -> "Cell":
        """The cell after post-processing: still reliable only if the new value is close to all of the new interval.

        >>> Cell(100, 95, 105, True).moved(120, 95, 105)
        Cell(value=120, lower=95, upper=105, reliable=False)
        """
        return Cell(value, lower, upper, self.reliable and close(value, lower, upper))


@dataclass(frozen=True, slots=True)
class Noisy:
    """The noisy totals of some groups, and how far off they may be."""

    measurement: Measurement
    scalars: Mapping[Scalar, Sequence[int]]
    spreads: Mapping[Counts, NDArray[np.int64]]  # groups × nodes
    confidence: float
    together: int | None  # how many intervals shall hold together; None: each on its own

    def error(self, measure: Measure, size: int) -> int:
        """How far one of `size` totals may be off, all of them holding together with the confidence."""
        return int(self.measurement.noise(measure).error(self.confidence, self.together or size))

    @property
    def tail(self) -> float:
        """How often one interval, or one of those that hold together, may miss on one side."""
        return float((1 - exact_confidence(self.confidence)) / (self.together or 1) / 2)


def cells(aggregate: plan.Aggregate, noisy: Noisy) -> Iterator[tuple[Cell, ...]]:
    """The cells of one aggregate, row by row: one each, but for a histogram, which has several."""
    bounded = noisy.measurement.bounded
    if isinstance(aggregate, plan.Quantile):
        return ((cell,) for cell in _quantiles(aggregate, noisy))
    if isinstance(aggregate, plan.Histogram):
        [counts] = measures_of(aggregate, bounded.table)
        assert isinstance(counts, Counts)
        off = noisy.error(counts, 1)
        return (tuple(_whole(n, off) for n in row) for row in noisy.spreads[counts].tolist())
    return ((cell,) for cell in _scalar(aggregate, noisy))


def _scalar(aggregate: "plan.ScalarAggregate", noisy: Noisy) -> Iterator[Cell]:
    bounded = noisy.measurement.bounded
    measures = [m for m in measures_of(aggregate, bounded.table) if not isinstance(m, Counts)]
    columns = zip(*(noisy.scalars[measure] for measure in measures), strict=True)
    errors = tuple(noisy.error(measure, len(measures)) for measure in measures)
    match aggregate:
        case plan.CountRows() | plan.CountUnits() | plan.CountValues():
            return (_whole(n, errors[0]) for (n,) in columns)
        case plan.Sum(value=value):
            span = bounded.span(Total(value, 0))
            return (_sum(n, errors[0], span) for (n,) in columns)
        case plan.Mean(value=value):
            average = Average.of(value, bounded)
            return (average.mean(s, n, *errors) for s, n in columns)
        case plan.Variance(value=value, root=root):
            average = Average.of(value, bounded)
            return (average.variance(s, q, n, *errors, root=root) for s, q, n in columns)
        case _:
            assert_never(aggregate)


def _quantiles(aggregate: plan.Quantile, noisy: Noisy) -> Iterator[Cell]:
    """Values in grid steps, from the first step of the first cell to the last step of the last."""
    bounded = noisy.measurement.bounded
    span, tree = span_of(aggregate.value, bounded.table), tree_of(aggregate.value, bounded.table)
    width = width_of(tree, span)
    noise = noisy.measurement.noise(tree)
    reader = Reader(tree, aggregate.q)
    found, rows = reader.places(noisy.spreads[tree], noise, noisy.tail), reader.sizes(noisy.spreads[tree]).tolist()
    off = reader.size_error(noise, noisy.tail)
    values = (tree.first + found.cell) * width + np.rint(found.inside * (width - 1)).astype(np.int64)
    lows, highs = (tree.first + found.first) * width, (tree.first + found.last + 1) * width - 1
    steps = (np.clip(ends, span.lower, span.upper).tolist() for ends in (values, lows, highs))
    for value, low, high, n, agree in zip(*steps, rows, found.agree.tolist(), strict=True):
        told = 4 * (high - low) <= span.upper - span.lower  # else the interval says little more than the bounds do
        ends = below(low, span.exponent), above(high, span.exponent)
        sure = agree and told and enough(n, off) and close(value, low, high)
        yield Cell(ldexp(value, span.exponent), *ends, sure)


def column_names(name: str, aggregate: plan.Aggregate) -> tuple[str, ...]:
    """The columns of the answer that an aggregate becomes.

    >>> column_names("h", plan.Histogram(plan.Ref("age"), (Fraction(0), Fraction(18), Fraction(65, 2))))
    ('h[0,18)', 'h[18,32.5]')
    """
    if not isinstance(aggregate, plan.Histogram):
        return (name,)
    edges = [f"{nearest_float(edge):.12g}" for edge in aggregate.edges]
    last = len(edges) - 2
    return tuple(f"{name}[{low},{high}{']' if i == last else ')'}" for i, (low, high) in enumerate(pairwise(edges)))


def count_measure(aggregate: plan.Aggregate) -> bool:
    """Whether a column holds whole counts."""
    return isinstance(aggregate, plan.CountRows | plan.CountUnits | plan.CountValues | plan.Histogram)


def least_of(aggregate: plan.Aggregate, bounded: Bounded) -> Fraction | None:
    """A lower bound of the bounded answer that everybody knows, if there is one: what `non_negative` may lean on."""
    match aggregate:
        case plan.CountRows() | plan.CountUnits() | plan.CountValues() | plan.Variance() | plan.Histogram():
            return Fraction(0)
        case plan.Sum(value=value):
            return Fraction(0) if bounded.span(Total(value, 0)).lower >= 0 else None
        case plan.Mean(value=value) | plan.Quantile(value=value):
            span = bounded.span(Total(value, 0))
            return span.lower * span.grid
        case _:
            assert_never(aggregate)


def close(value: float, lower: float, upper: float) -> bool:
    """Whether the value lies in its interval, whose half-width is at most a tenth of it."""
    return lower <= value <= upper and 5 * (upper - lower) <= abs(value)


def enough(count: float, off: float) -> bool:
    """Whether a noisy count of rows is reliable, so that an estimate over these rows can be."""
    return count > 0 and close(count, count - off, count + off)


def _whole(n: int, off: int) -> Cell:
    """A count: a negative one is noise, however small its interval is beside it."""
    return Cell(n, n - off, n + off, n >= 0 and close(n, n - off, n + off))


def _sum(n: int, off: int, span: Span) -> Cell:
    possible = (n >= 0 or span.lower < 0) and (n <= 0 or span.upper > 0)  # on a side where sums of such values can lie
    sure, exponent = possible and close(n, n - off, n + off), span.exponent
    if exponent >= 0:
        return Cell(n << exponent, (n - off) << exponent, (n + off) << exponent, sure)
    return Cell(ldexp(n, exponent), below(n - off, exponent), above(n + off, exponent), sure)


def below(steps: int, exponent: int) -> float:
    """The largest double of 53 bits that is not above steps·2^exponent."""
    extra = max(0, steps.bit_length() - 53)
    return ldexp(steps >> extra, exponent + extra)


def above(steps: int, exponent: int) -> float:
    """The least double of 53 bits that is not below steps·2^exponent.

    >>> above(2**60 + 1, -60) > 1 > below(2**60 - 1, -60)
    True
    """
    return -below(-steps, exponent)


@dataclass(frozen=True, slots=True)
class Average:
    """Averages of values between `lower` and `upper` grid steps, from sums of their distances to `middle`."""

    lower: int
    upper: int
    middle: int
    exponent: int

    @property
    def grid(self) -> Fraction:
        """The size of a step."""
        return Fraction(2) ** self.exponent

    @classmethod
    def of(cls, value: plan.Value, bounded: Bounded) -> "Average":
        middle = centre_of(value, bounded.table)
        span = bounded.span(Total(value, middle))
        return cls(span.lower, span.upper, middle, span.exponent)

    def mean(self, total: int, count: int, off_total: int, off_count: int) -> Cell:
        """middle + total/count, inside the declared range."""
        fewest, most = max(1, count - off_count), max(1, count + off_count)
        low, high = _ratio_bounds(total - off_total, total + off_total, fewest, most)
        guess = (total << FINE) // max(1, count)
        fine, base = self.exponent - FINE, self.middle << FINE
        least, greatest = self.lower << FINE, self.upper << FINE
        possible = base + low <= greatest and base + high >= least  # else the noise was larger than its error
        low, guess, high = (min(max(base + x, least), greatest) for x in (low, guess, high))
        told = 4 * (high - low) <= greatest - least  # else the interval says little more than the declared range does
        sure = possible and told and enough(count, off_count) and close(guess, low, high)
        return Cell(ldexp(guess, fine), below(low, fine), above(high, fine), sure)

    def variance(
        self, total: int, squares: int, count: int, off_total: int, off_squares: int, off_count: int, *, root: bool
    ) -> Cell:
        """E(x − c)² − (E(x − c))², at least 0 and at most a quarter of the range squared; or its root."""
        fewest, most, n = (max(1, count + move) for move in (-off_count, off_count, 0))
        mean = _ratio_bounds(total - off_total, total + off_total, fewest, most)
        second = _ratio_bounds(squares - off_squares, squares + off_squares, fewest, most)
        ends = [abs(end) for end in mean]
        nearest = 0 if mean[0] <= 0 <= mean[1] else min(ends)
        guess = ((squares << FINE) // n) - (((total << FINE) // n) ** 2 >> FINE)
        low, high = second[0] - -(-(max(ends) ** 2) >> FINE), second[1] - (nearest**2 >> FINE)
        greatest = -(-((self.upper - self.lower) ** 2 << FINE) // 4)
        possible = low <= greatest and high >= 0  # else clamping makes a point of it that says nothing
        low, guess, high = (min(max(x, 0), greatest) for x in (low, guess, high))
        sure = possible and enough(count, off_count) and 4 * (high - low) <= greatest
        fine = 2 * self.exponent - FINE
        if root:
            # √(x/2^40) = √(x·2^40)/2^40
            low, guess, high = isqrt(low << FINE), isqrt(guess << FINE), isqrt(high << FINE) + (high > 0)
            fine = self.exponent - FINE
        sure = sure and close(guess, low, high)
        return Cell(ldexp(guess, fine), below(low, fine), above(high, fine), sure)

    def mean_error(self, size: int, off_total: int, off_count: int) -> Fraction:
        """The half-width of a mean over a noisy count of `size`, for the worst mean: (e_sum + R/2·e_n)/(size − e_n)."""
        return self._mean_steps(size, off_total, off_count) * self.grid

    def variance_error(self, size: int, off_total: int, off_squares: int, off_count: int) -> Fraction:
        """The same for a variance: the error of E(x − c)², plus that of the squared mean."""
        most = Fraction((self.upper - self.lower) ** 2, 4)
        if size <= off_count:
            return most * self.grid**2
        second = (off_squares + self._reach**2 * off_count) / Fraction(size - off_count)
        drift = self._mean_steps(size, off_total, off_count)
        return min(most, second + (2 * self._reach + drift) * drift) * self.grid**2

    @property
    def _reach(self) -> int:
        return max(self.upper - self.middle, self.middle - self.lower)

    def _mean_steps(self, size: int, off_total: int, off_count: int) -> Fraction:
        width = Fraction(self.upper - self.lower)
        return width if size <= off_count else min(width, Fraction(off_total + self._reach * off_count, size - off_count))


def _ratio_bounds(low: int, high: int, fewest: int, most: int) -> tuple[int, int]:
    """All of [low, high]/[fewest, most], in 2^-40 steps, outward."""
    return (low << FINE) // (most if low > 0 else fewest), -((-high << FINE) // (fewest if high > 0 else most))
