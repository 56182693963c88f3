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
from functools import cached_property
from itertools import pairwise
from math import isqrt, ldexp
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from discreet._numbers import nearest_float, read_decimal
from discreet.mechanisms import Gaussian, Laplace
from discreet.mechanisms.weighted_sums import weighted_sum_error
from discreet.query import ast
from discreet.query.calibrate import Measurement
from discreet.query.contribution import BoundedQuery
from discreet.query.grid import GridRange, grid_range_of
from discreet.query.statistics import (
    CellCounts,
    CentredSum,
    ScalarStatistic,
    Statistic,
    build_quantile_tree,
    cell_width_of,
    midpoint_of,
    statistics_of,
)

# Quantiles from a tree of noisy counts, with an interval of values.
#
# For a share q let D(b) = (1−q)·(rows in cells up to b) − q·(rows in cells above b). It only grows with b, and the
# quantile's
# cell b* is the first where D ≥ 0. Going down the tree to b, every level has one node's siblings to the left, which are
# below,
# and to the right, which are above; so D(b) is a weighted sum of noises that are few, independent and never reused, and its
# error e(b) at a fixed b is known.
#
# The interval takes cells from the left while D̃ < −e and from the right while D̃(·−1) > e. It misses b* only if D̃ is
# wrong by
# more than e at b* itself, or at b*−1: two fixed places, each with half of the probability that is allowed, however many
# cells there are. (A sequence of tests in a fixed order needs no correction for its length.)


Reals = NDArray[np.float64]
Ints = NDArray[np.int64]


def sum_tree_levels(counts: CellCounts, cells: Ints) -> Ints:
    """All levels' counts, root's children first, from the leaves' (one row per group)."""
    levels, size = [], 1
    for fan in counts.branching:
        size *= fan
        levels.append(cells.reshape(len(cells), size, -1).sum(axis=2))
    return np.concatenate(levels, axis=1)


@dataclass(frozen=True)
class QuantileEstimator:
    """Reads one quantile off a tree."""

    tree: CellCounts
    q: Fraction

    def ranks(self, noisy: Ints) -> Reals:
        """D̃ at every cell, one row per group."""
        rows, found, size, start = len(noisy), np.zeros((len(noisy), 1)), 1, 0
        left, right = float(1 - self.q), float(self.q)
        for fan in self.tree.branching:
            level = noisy[:, start : start + size * fan].astype(np.float64).reshape(rows, size, fan)
            upto = level.cumsum(axis=2)
            siblings = left * (upto - level) - right * (upto[:, :, -1:] - upto)
            found = (found[:, :, None] + siblings).reshape(rows, size * fan)
            start, size = start + size * fan, size * fan
        return found + left * noisy[:, -size:]

    @cached_property
    def left_noise_counts(self) -> Ints:
        """How many noises stand to the left in D(b), the cell's own included; the rest stand to the right."""
        found = np.zeros(1, np.int64)
        for fan in self.tree.branching:
            found = (found[:, None] + np.arange(fan)).ravel()
        return found + 1

    def errors(self, noise: Laplace | Gaussian, tail: float) -> Reals:
        """e(b) with P(D̃(b) − D(b) > e(b)) ≤ tail, and the same on the other side."""
        many = sum(self.tree.branching) - len(self.tree.branching) + 1
        table = [
            weighted_sum_error(noise, ((1 - self.q, k), (self.q, many - k)), tail) if k else 0.0 for k in range(many + 1)
        ]
        return np.array(table)[self.left_noise_counts]

    def rank_error(self, noise: Laplace | Gaussian, confidence: float) -> float:
        """How many rows the noisy rank of a fixed value may be off, at the worst place."""
        return float(self.errors(noise, float((1 - read_decimal(confidence, "confidence")) / 2)).max())

    def sizes(self, noisy: Ints) -> Ints:
        """The noisy number of rows of every group: the sum of the root's children, the fewest noises that add up to it."""
        return np.asarray(noisy[:, : self.tree.branching[0]].sum(axis=1))

    def size_error(self, noise: Laplace | Gaussian, tail: float) -> float:
        """e with P(noisy size − size > e) ≤ tail, and the same on the other side."""
        return weighted_sum_error(noise, ((Fraction(1), self.tree.branching[0]),), tail)

    def locate(self, noisy: Ints, noise: Laplace | Gaussian, tail: float) -> "QuantileLocation":
        """Where the quantile lies, for every group; outside of it with probability at most 2·tail."""
        ranks = self.ranks(noisy)
        slack = self.errors(noise, tail) + 1e-9 * np.abs(ranks).max(axis=1, keepdims=True)  # for the rounding of doubles
        reached, passed = ranks >= -slack, ranks[:, :-1] <= slack[:, :-1]
        end = ranks.shape[1] - 1
        first = np.where(reached.any(axis=1), reached.argmax(axis=1), end)
        last = np.where(passed.any(axis=1), end - passed[:, ::-1].argmax(axis=1), 0)
        agree = first <= last  # else the two sides contradict each other, and one of them is wrong
        first, last = np.minimum(first, last), np.maximum(first, last)
        # where the best non-decreasing fit of D̃ crosses zero: its running sum is least there
        running = np.concatenate([np.zeros((len(ranks), 1)), np.cumsum(ranks[:, :-1], axis=1)], axis=1)
        cell = np.clip(running.argmin(axis=1), first, last)
        return QuantileLocation(cell, _interpolate_crossing(ranks, cell), first, last, agree)


@dataclass(frozen=True, slots=True)
class QuantileLocation:
    """Per group: most likely a share `inside` of the way through `cell`; surely enough from cell `first` to cell `last`.

    `agree` is false where the tests from the left and from the right exclude every cell.
    """

    cell: Ints
    fraction: Reals
    first_cell: Ints
    last_cell: Ints
    sides_agree: NDArray[np.bool_]


def _interpolate_crossing(ranks: Reals, cell: Ints) -> Reals:
    """How far into the cell a straight line through D̃ at its two ends crosses zero; halfway if it does not rise."""
    row = np.arange(len(ranks))
    before, after = np.where(cell > 0, ranks[row, cell - 1], -1.0), ranks[row, cell]
    rising = after > before
    return np.where(rising, np.clip(-before / np.where(rising, after - before, 1.0), 0.0, 1.0), 0.5)


FRACTION_BITS = 40  # bits below a grid step that survive a division


@dataclass(frozen=True, slots=True)
class Estimate:
    """One number of the answer with its interval; `reliable` as the head of this file says."""

    value: float
    lower: float
    upper: float
    reliable: bool

    def adjust(self, value: float, lower: float, upper: float) -> "Estimate":
        """The cell after post-processing: still reliable only if the new value is close to all of the new interval.

        >>> Estimate(100, 95, 105, True).adjust(120, 95, 105)
        Estimate(value=120, lower=95, upper=105, reliable=False)
        """
        return Estimate(value, lower, upper, self.reliable and is_close(value, lower, upper))


@dataclass(frozen=True, slots=True)
class NoisyStatistics:
    """The noisy totals of some groups, and how far off they may be."""

    measurement: Measurement
    scalars: Mapping[ScalarStatistic, Sequence[int]]
    cell_counts: Mapping[CellCounts, NDArray[np.int64]]  # groups × nodes
    confidence: float
    joint_intervals: int | None  # how many intervals shall hold together; None: each on its own

    def error(self, statistic: Statistic, size: int) -> int:
        """How far one of `size` totals may be off, all of them holding together with the confidence."""
        return int(self.measurement.noise(statistic).error(self.confidence, self.joint_intervals or size))

    @property
    def tail(self) -> float:
        """How often one interval, or one of those that hold together, may miss on one side."""
        return float((1 - read_decimal(self.confidence, "confidence")) / (self.joint_intervals or 1) / 2)


def estimate(aggregate: ast.Aggregate, noisy: NoisyStatistics) -> Iterator[tuple[Estimate, ...]]:
    """The cells of one aggregate, row by row: one each, but for a histogram, which has several."""
    bounded = noisy.measurement.bounded
    if isinstance(aggregate, ast.Quantile):
        return ((cell,) for cell in _estimate_quantiles(aggregate, noisy))
    if isinstance(aggregate, ast.Histogram):
        [counts] = statistics_of(aggregate, bounded.table)
        assert isinstance(counts, CellCounts)
        off = noisy.error(counts, 1)
        return (tuple(_estimate_count(n, off) for n in row) for row in noisy.cell_counts[counts].tolist())
    return ((cell,) for cell in _estimate_scalar(aggregate, noisy))


def _estimate_scalar(aggregate: "ast.ScalarAggregate", noisy: NoisyStatistics) -> Iterator[Estimate]:
    bounded = noisy.measurement.bounded
    measures = [m for m in statistics_of(aggregate, bounded.table) if not isinstance(m, CellCounts)]
    columns = zip(*(noisy.scalars[measure] for measure in measures), strict=True)
    errors = tuple(noisy.error(measure, len(measures)) for measure in measures)
    match aggregate:
        case ast.CountRows() | ast.CountUnits() | ast.CountValues():
            return (_estimate_count(n, errors[0]) for (n,) in columns)
        case ast.Sum(value=value):
            span = bounded.grid_range(CentredSum(value, 0))
            return (_estimate_sum(n, errors[0], span) for (n,) in columns)
        case ast.Mean(value=value):
            average = Average.of(value, bounded)
            return (average.estimate_mean(s, n, *errors) for s, n in columns)
        case ast.Variance(value=value, root=root):
            average = Average.of(value, bounded)
            return (average.estimate_variance(s, q, n, *errors, root=root) for s, q, n in columns)
        case _:
            assert_never(aggregate)


def _estimate_quantiles(aggregate: ast.Quantile, noisy: NoisyStatistics) -> Iterator[Estimate]:
    """Values in grid steps, from the first step of the first cell to the last step of the last."""
    bounded = noisy.measurement.bounded
    span, tree = grid_range_of(aggregate.value, bounded.table), build_quantile_tree(aggregate.value, bounded.table)
    width = cell_width_of(tree, span)
    noise = noisy.measurement.noise(tree)
    reader = QuantileEstimator(tree, aggregate.q)
    found, rows = reader.locate(noisy.cell_counts[tree], noise, noisy.tail), reader.sizes(noisy.cell_counts[tree]).tolist()
    off = reader.size_error(noise, noisy.tail)
    values = (tree.first_cell + found.cell) * width + np.rint(found.fraction * (width - 1)).astype(np.int64)
    lows, highs = (tree.first_cell + found.first_cell) * width, (tree.first_cell + found.last_cell + 1) * width - 1
    steps = (np.clip(ends, span.lower, span.upper).tolist() for ends in (values, lows, highs))
    for value, low, high, n, agree in zip(*steps, rows, found.sides_agree.tolist(), strict=True):
        told = 4 * (high - low) <= span.upper - span.lower  # else the interval says little more than the bounds do
        ends = to_double_below(low, span.exponent), to_double_above(high, span.exponent)
        sure = agree and told and is_reliable_count(n, off) and is_close(value, low, high)
        yield Estimate(ldexp(value, span.exponent), *ends, sure)


def column_names(name: str, aggregate: ast.Aggregate) -> tuple[str, ...]:
    """The columns of the answer that an aggregate becomes.

    >>> column_names("h", ast.Histogram(ast.Ref("age"), (Fraction(0), Fraction(18), Fraction(65, 2))))
    ('h[0,18)', 'h[18,32.5]')
    """
    if not isinstance(aggregate, ast.Histogram):
        return (name,)
    edges = [f"{nearest_float(edge):.12g}" for edge in aggregate.edges]
    last = len(edges) - 2
    return tuple(f"{name}[{low},{high}{']' if i == last else ')'}" for i, (low, high) in enumerate(pairwise(edges)))


def is_count(aggregate: ast.Aggregate) -> bool:
    """Whether a column holds whole counts."""
    return isinstance(aggregate, ast.CountRows | ast.CountUnits | ast.CountValues | ast.Histogram)


def lower_limit_of(aggregate: ast.Aggregate, bounded: BoundedQuery) -> Fraction | None:
    """A lower bound of the bounded answer that everybody knows, if there is one: what `non_negative` may lean on."""
    match aggregate:
        case ast.CountRows() | ast.CountUnits() | ast.CountValues() | ast.Variance() | ast.Histogram():
            return Fraction(0)
        case ast.Sum(value=value):
            return Fraction(0) if bounded.grid_range(CentredSum(value, 0)).lower >= 0 else None
        case ast.Mean(value=value) | ast.Quantile(value=value):
            span = bounded.grid_range(CentredSum(value, 0))
            return span.lower * span.grid
        case _:
            assert_never(aggregate)


def is_close(value: float, lower: float, upper: float) -> bool:
    """Whether the value lies in its interval, whose half-width is at most a tenth of it."""
    return lower <= value <= upper and 5 * (upper - lower) <= abs(value)


def is_reliable_count(count: float, error: float) -> bool:
    """Whether a noisy count of rows is reliable, so that an estimate over these rows can be."""
    return count > 0 and is_close(count, count - error, count + error)


def _estimate_count(n: int, error: int) -> Estimate:
    """A count: a negative one is noise, however small its interval is beside it."""
    return Estimate(n, n - error, n + error, n >= 0 and is_close(n, n - error, n + error))


def _estimate_sum(n: int, error: int, grid_range: GridRange) -> Estimate:
    possible = (n >= 0 or grid_range.lower < 0) and (
        n <= 0 or grid_range.upper > 0
    )  # on a side where sums of such values can lie
    sure, exponent = possible and is_close(n, n - error, n + error), grid_range.exponent
    if exponent >= 0:
        return Estimate(n << exponent, (n - error) << exponent, (n + error) << exponent, sure)
    return Estimate(ldexp(n, exponent), to_double_below(n - error, exponent), to_double_above(n + error, exponent), sure)


def to_double_below(steps: int, exponent: int) -> float:
    """The largest double of 53 bits that is not above steps·2^exponent."""
    extra = max(0, steps.bit_length() - 53)
    return ldexp(steps >> extra, exponent + extra)


def to_double_above(steps: int, exponent: int) -> float:
    """The least double of 53 bits that is not below steps·2^exponent.

    >>> to_double_above(2**60 + 1, -60) > 1 > to_double_below(2**60 - 1, -60)
    True
    """
    return -to_double_below(-steps, exponent)


@dataclass(frozen=True, slots=True)
class Average:
    """Averages of values between `lower` and `upper` grid steps, from sums of their distances to `middle`."""

    lower: int
    upper: int
    centre: int
    exponent: int

    @property
    def grid(self) -> Fraction:
        """The size of a step."""
        return Fraction(2) ** self.exponent

    @classmethod
    def of(cls, value: ast.Value, bounded: BoundedQuery) -> "Average":
        middle = midpoint_of(value, bounded.table)
        span = bounded.grid_range(CentredSum(value, middle))
        return cls(span.lower, span.upper, middle, span.exponent)

    def estimate_mean(self, total: int, count: int, total_error: int, count_error: int) -> Estimate:
        """middle + total/count, inside the declared range."""
        fewest, most = max(1, count - count_error), max(1, count + count_error)
        low, high = _ratio_bounds(total - total_error, total + total_error, fewest, most)
        guess = (total << FRACTION_BITS) // max(1, count)
        fine, base = self.exponent - FRACTION_BITS, self.centre << FRACTION_BITS
        least, greatest = self.lower << FRACTION_BITS, self.upper << FRACTION_BITS
        possible = base + low <= greatest and base + high >= least  # else the noise was larger than its error
        low, guess, high = (min(max(base + x, least), greatest) for x in (low, guess, high))
        told = 4 * (high - low) <= greatest - least  # else the interval says little more than the declared range does
        sure = possible and told and is_reliable_count(count, count_error) and is_close(guess, low, high)
        return Estimate(ldexp(guess, fine), to_double_below(low, fine), to_double_above(high, fine), sure)

    def estimate_variance(
        self, total: int, squares: int, count: int, total_error: int, squares_error: int, count_error: int, *, root: bool
    ) -> Estimate:
        """E(x − c)² − (E(x − c))², at least 0 and at most a quarter of the range squared; or its root."""
        fewest, most, n = (max(1, count + move) for move in (-count_error, count_error, 0))
        mean = _ratio_bounds(total - total_error, total + total_error, fewest, most)
        second = _ratio_bounds(squares - squares_error, squares + squares_error, fewest, most)
        ends = [abs(end) for end in mean]
        nearest = 0 if mean[0] <= 0 <= mean[1] else min(ends)
        guess = ((squares << FRACTION_BITS) // n) - (((total << FRACTION_BITS) // n) ** 2 >> FRACTION_BITS)
        low, high = second[0] - -(-(max(ends) ** 2) >> FRACTION_BITS), second[1] - (nearest**2 >> FRACTION_BITS)
        greatest = -(-((self.upper - self.lower) ** 2 << FRACTION_BITS) // 4)
        possible = low <= greatest and high >= 0  # else clamping makes a point of it that says nothing
        low, guess, high = (min(max(x, 0), greatest) for x in (low, guess, high))
        sure = possible and is_reliable_count(count, count_error) and 4 * (high - low) <= greatest
        fine = 2 * self.exponent - FRACTION_BITS
        if root:
            # √(x/2^40) = √(x·2^40)/2^40
            low, guess, high = (
                isqrt(low << FRACTION_BITS),
                isqrt(guess << FRACTION_BITS),
                isqrt(high << FRACTION_BITS) + (high > 0),
            )
            fine = self.exponent - FRACTION_BITS
        sure = sure and is_close(guess, low, high)
        return Estimate(ldexp(guess, fine), to_double_below(low, fine), to_double_above(high, fine), sure)

    def mean_half_width(self, size: int, total_error: int, count_error: int) -> Fraction:
        """The half-width of a mean over a noisy count of `size`, for the worst mean: (e_sum + R/2·e_n)/(size − e_n)."""
        return self._mean_half_width_steps(size, total_error, count_error) * self.grid

    def variance_half_width(self, size: int, total_error: int, squares_error: int, count_error: int) -> Fraction:
        """The same for a variance: the error of E(x − c)², plus that of the squared mean."""
        most = Fraction((self.upper - self.lower) ** 2, 4)
        if size <= count_error:
            return most * self.grid**2
        second = (squares_error + self._max_distance**2 * count_error) / Fraction(size - count_error)
        drift = self._mean_half_width_steps(size, total_error, count_error)
        return min(most, second + (2 * self._max_distance + drift) * drift) * self.grid**2

    @property
    def _max_distance(self) -> int:
        return max(self.upper - self.centre, self.centre - self.lower)

    def _mean_half_width_steps(self, size: int, total_error: int, count_error: int) -> Fraction:
        width = Fraction(self.upper - self.lower)
        return (
            width
            if size <= count_error
            else min(width, Fraction(total_error + self._max_distance * count_error, size - count_error))
        )


def _ratio_bounds(low: int, high: int, fewest: int, most: int) -> tuple[int, int]:
    """All of [low, high]/[fewest, most], in 2^-40 steps, outward."""
    return (low << FRACTION_BITS) // (most if low > 0 else fewest), -(
        (-high << FRACTION_BITS) // (fewest if high > 0 else most)
    )
