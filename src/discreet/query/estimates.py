"""From noisy integers to estimates with intervals, in whole numbers until the very end.

An estimate's interval holds everything that its statistics can be if each lies within its own error of the noisy one;
divisions are floored below and raised above, at 2^-40 of a grid step, and the last step to a double goes outward too.

What `reliable` promises. An estimate is reliable if its half-width is at most a tenth of its value, the value lies in its
own interval and is one that the statistic can have, and, for averages, variances and quantiles, the noisy row count behind
it is at least ten times its own error. All of it is computed from noisy numbers, so the flag is post-processing and costs
nothing.

**Proof** that an estimate is flagged and wrong with probability at most 1 − confidence, whatever the data. Where the
statistic exists, a wrong estimate is one whose interval misses it, which happens no more often than that. Where it does not
exist (the average or a quantile of no rows), every flag is wrong; but a flag needs a noisy count of at least 10e, where the
noise X of the count exceeds e with probability at most (1 − confidence)/2. Flags on tiny groups are in fact far rarer: X is
symmetric with a log-concave distribution, so ln P(X ≥ x) is concave, and a group of m ≤ e rows is flagged with probability
at most P(X ≥ 9e) ≤ ½·(1 − confidence)^(9e/(e+1)). No rule on noisy numbers can promise that *of the flagged estimates* few
are wrong, whatever the data: where the truth is just too small for a flag, only noise raises one.

Where the interval of the row count includes 0, the interval of an average, variance, covariance, correlation or quantile is
the whole range that the declared bounds allow. The statistic of no rows does not exist, and over a count that may be 0 the
noisy sums do not bound one: a quotient by a count that noise made negative clips to one end of the range, which would be an
interval of width 0 about a group that may be empty. Coverage stays, because every value that such a statistic can have lies
in that range: the interval is replaced by a superset of it.

How a quantile is read off a tree of noisy counts. For a share q let D(b) = (1−q)·(rows in cells up to b) − q·(rows in cells
above b). It only grows with b, and the quantile's cell b* is the first where D ≥ 0. Going down the tree to b, every level
has one node's siblings to the left, which are below, and to the right, which are above; so D(b) is a weighted sum of noises
that are few, independent and never reused, and its error e(b) at a fixed b is known.

**Proof** of the interval of a quantile. It takes cells from the left while D̃ < −e and from the right while D̃(·−1) > e. It
misses b* only if D̃ is wrong by more than e at b* itself, or at b*−1: two fixed places, each with half of the probability
that is allowed, however many cells there are. (A sequence of tests in a fixed order needs no correction for its length.)
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import isqrt, ldexp, sqrt
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet._numbers import read_decimal
from discreet.mechanisms import Gaussian, Laplace
from discreet.mechanisms.weighted_sums import weighted_sum_error
from discreet.query import ast
from discreet.query.grid import GridRange, grid_range_of
from discreet.query.schema import Table
from discreet.query.statistics import CellCounts, ScalarStatistic, Statistic, cell_width_of, midpoint_of

Noise: TypeAlias = Laplace | Gaussian
Reals = NDArray[np.float64]
Ints = NDArray[np.int64]

FRACTION_BITS = 40
"""Bits below a grid step that survive a division."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """One number of an answer with its interval, and whether it is reliable."""

    value: float
    lower: float
    upper: float
    reliable: bool

    def adjust(self, value: float, lower: float, upper: float) -> "Estimate":
        """Return the estimate after post-processing: still reliable only if the new value is close to all of the new
        interval.

        >>> Estimate(100, 95, 105, True).adjust(120, 95, 105)
        Estimate(value=120, lower=95, upper=105, reliable=False)
        """
        return Estimate(value, lower, upper, self.reliable and is_close(value, lower, upper))


@dataclass(frozen=True, slots=True)
class AnswerColumn:
    """What is public about a column of an answer: what post-processing may lean on."""

    name: str
    lower_limit: Fraction | None = None  # the exact value is at least this
    is_count: bool = False
    is_additive: bool = False  # whether the groups add up to the whole
    fixed_total: Fraction | None = None  # the total that `make_consistent` made it add up to
    unit: str = ""  # what is counted, for people
    joint_margin: Fraction | None = field(default=None, compare=False)
    """How much further out the ends of its intervals lie where all intervals of the answer hold together: one number for all
    groups of a count or sum, from the noise alone. None where it depends on the values. No record holds it: it follows from
    the measurement."""
    histogram_of: str = field(default="", compare=False)  # of the cell of a histogram: whose values it counts, for people

    @property
    def is_non_negative(self) -> bool:
        """Whether the exact value cannot be negative."""
        return self.lower_limit is not None and self.lower_limit >= 0


@dataclass(frozen=True)
class StatisticNoise:
    """The noise of a query's statistics, and how far off each may be. Known before any row is read."""

    table: Table
    noises: Mapping[Statistic, Noise]
    confidence: float
    joint_intervals: int | None = None  # how many intervals shall hold together; None: each on its own

    def error(self, statistic: Statistic, size: int = 1) -> int:
        """Return how far one of `size` statistics may be off, all of them holding together with the confidence."""
        return int(self.noises[statistic].error(self.confidence, self.joint_intervals or size))

    @property
    def tail(self) -> float:
        """How often one interval, or one of those that hold together, may miss on one side."""
        return float((1 - read_decimal(self.confidence, "confidence")) / (self.joint_intervals or 1) / 2)


@dataclass(frozen=True, kw_only=True)
class NoisyStatistics(StatisticNoise):
    """The noisy statistics of some groups."""

    scalars: Mapping[ScalarStatistic, Sequence[int]]  # one number per group
    cell_counts: Mapping[CellCounts, Ints]  # groups × nodes


SHARE_OF_ROWS = "of the rows"
"""The unit of a half-width that is a share of the rows, which people read as a percentage."""


class PredictedError(NamedTuple):
    """The half-widths of a column, each outright (size None) or over so many rows."""

    half_widths: tuple[tuple[int | None, float], ...]
    relative_to: tuple[tuple[int | None, float], ...]  # what an error in percent is a percentage of
    unit: str = ""  # of the half-widths, if not the column's own


def is_close(value: float, lower: float, upper: float) -> bool:
    """Return whether the value lies in its interval, whose half-width is at most a tenth of it."""
    return lower <= value <= upper and 5 * (upper - lower) <= abs(value)


def is_reliable_count(count: float, error: float) -> bool:
    """Return whether a noisy row count is reliable, so that an estimate over these rows can be."""
    return count > 0 and is_close(count, count - error, count + error)


def may_be_empty(count: float, error: float) -> bool:
    """Return whether the interval of a noisy row count includes 0, so that an average over these rows may not exist."""
    return count <= error


def estimate_count(n: int, error: int) -> Estimate:
    """Return a count with its interval. A negative one is noise, however small its interval is beside it."""
    return Estimate(n, n - error, n + error, n >= 0 and is_close(n, n - error, n + error))


def estimate_sum(n: int, error: int, grid_range: GridRange) -> Estimate:
    """Return a sum of n grid steps with its interval. It is reliable only on a side where sums of such values can lie."""
    possible = (n >= 0 or grid_range.lower < 0) and (n <= 0 or grid_range.upper > 0)
    reliable = possible and is_close(n, n - error, n + error)
    return Estimate(*to_numbers(n, n - error, n + error, grid_range.exponent), reliable)


def to_numbers(value: int, lower: int, upper: int, exponent: int) -> tuple[float, float, float]:
    """Return a value of the grid and the ends of its interval: integers where the grid has only integers, else doubles, of
    which the ends are rounded outward. All values of such a statistic lie on the grid, so no end need lie between steps.

    >>> to_numbers(40, 38, 41, 0), to_numbers(5, 4, 7, -1)
    ((40, 38, 41), (2.5, 2.0, 3.5))
    """
    if exponent >= 0:
        return value << exponent, lower << exponent, upper << exponent
    return ldexp(value, exponent), to_double_below(lower, exponent), to_double_above(upper, exponent)


def to_double_below(steps: int, exponent: int) -> float:
    """Return the largest double of 53 bits that is not above steps·2^exponent."""
    extra = max(0, steps.bit_length() - 53)
    return ldexp(steps >> extra, exponent + extra)


def to_double_above(steps: int, exponent: int) -> float:
    """Return the least double of 53 bits that is not below steps·2^exponent.

    >>> to_double_above(2**60 + 1, -60) > 1 > to_double_below(2**60 - 1, -60)
    True
    """
    return -to_double_below(-steps, exponent)


@dataclass(frozen=True, slots=True)
class Average:
    """Averages of values between `lower` and `upper` grid steps, from sums of their distances to the `centre`."""

    lower: int
    upper: int
    centre: int
    exponent: int

    @property
    def grid(self) -> Fraction:
        """The size of a step."""
        return Fraction(2) ** self.exponent

    @classmethod
    def of(cls, value: ast.Value, table: Table) -> "Average":
        """Return the averages of an expression, centred at the middle of its range."""
        grid_range = grid_range_of(value, table)
        return cls(grid_range.lower, grid_range.upper, midpoint_of(value, table), grid_range.exponent)

    def estimate_mean(self, total: int, count: int, total_error: int, count_error: int) -> Estimate:
        """Return centre + total/count, inside the declared range."""
        fewest, most = max(1, count - count_error), max(1, count + count_error)
        low, high = _ratio_bounds(total - total_error, total + total_error, fewest, most)
        guess = (total << FRACTION_BITS) // max(1, count)
        fine, base = self.exponent - FRACTION_BITS, self.centre << FRACTION_BITS
        least, greatest = self.lower << FRACTION_BITS, self.upper << FRACTION_BITS
        possible = base + low <= greatest and base + high >= least  # else the noise was larger than its error
        low, guess, high = (min(max(base + x, least), greatest) for x in (low, guess, high))
        if may_be_empty(count, count_error):
            low, high = least, greatest
        narrow = 4 * (high - low) <= greatest - least  # else the interval says little more than the declared range does
        reliable = possible and narrow and is_reliable_count(count, count_error) and is_close(guess, low, high)
        return Estimate(ldexp(guess, fine), to_double_below(low, fine), to_double_above(high, fine), reliable)

    def estimate_variance(
        self, total: int, squares: int, count: int, total_error: int, squares_error: int, count_error: int, *, root: bool
    ) -> Estimate:
        """Return E(x − c)² − (E(x − c))², at least 0 and at most a quarter of the range squared; or its root."""
        greatest = self.greatest_variance
        found = self.bound_variance(total, squares, count, total_error, squares_error, count_error)
        possible = found[0] <= greatest and found[2] >= 0  # else clamping makes a point of it that says nothing
        low, guess, high = (min(max(x, 0), greatest) for x in found)
        if may_be_empty(count, count_error):
            low, high = 0, greatest
        reliable = possible and is_reliable_count(count, count_error) and 4 * (high - low) <= greatest
        fine = 2 * self.exponent - FRACTION_BITS
        if root:  # √(x/2^40) = √(x·2^40)/2^40
            low, guess, above = (isqrt(x << FRACTION_BITS) for x in (low, guess, high))
            high, fine = above + (high > 0), self.exponent - FRACTION_BITS
        reliable = reliable and is_close(guess, low, high)
        return Estimate(ldexp(guess, fine), to_double_below(low, fine), to_double_above(high, fine), reliable)

    @property
    def greatest_variance(self) -> int:
        """A quarter of the range squared, in 2^-40 of a squared step, rounded up."""
        return -(-((self.upper - self.lower) ** 2 << FRACTION_BITS) // 4)

    def bound_variance(
        self, total: int, squares: int, count: int, total_error: int, squares_error: int, count_error: int
    ) -> tuple[int, int, int]:
        """Return the least variance, the likeliest and the greatest that the errors allow, in 2^-40 of a squared step."""
        fewest, most, n = (max(1, count + move) for move in (-count_error, count_error, 0))
        mean = _ratio_bounds(total - total_error, total + total_error, fewest, most)
        second = _ratio_bounds(squares - squares_error, squares + squares_error, fewest, most)
        ends = [abs(end) for end in mean]
        nearest = 0 if mean[0] <= 0 <= mean[1] else min(ends)
        guess = ((squares << FRACTION_BITS) // n) - (((total << FRACTION_BITS) // n) ** 2 >> FRACTION_BITS)
        return second[0] - -(-(max(ends) ** 2) >> FRACTION_BITS), guess, second[1] - (nearest**2 >> FRACTION_BITS)

    def mean_half_width(self, size: int, total_error: int, count_error: int) -> Fraction:
        """Return the half-width of a mean over a noisy count of `size`, for the worst mean: (e_sum + R/2·e_n)/(size −
        e_n)."""
        return self.mean_half_width_steps(size, total_error, count_error) * self.grid

    def variance_half_width(self, size: int, total_error: int, squares_error: int, count_error: int) -> Fraction:
        """Return the half-width of a variance: the error of E(x − c)², plus that of the squared mean."""
        most = Fraction((self.upper - self.lower) ** 2, 4)
        if size <= count_error:
            return most * self.grid**2
        second = (squares_error + self.max_distance**2 * count_error) / Fraction(size - count_error)
        mean = self.mean_half_width_steps(size, total_error, count_error)
        return min(most, second + (2 * self.max_distance + mean) * mean) * self.grid**2

    @property
    def max_distance(self) -> int:
        """The largest distance of a value from the centre, in steps."""
        return max(self.upper - self.centre, self.centre - self.lower)

    def mean_half_width_steps(self, size: int, total_error: int, count_error: int) -> Fraction:
        """Return the half-width of a mean in steps, for the worst mean."""
        width = Fraction(self.upper - self.lower)
        if size <= count_error:
            return width
        return min(width, Fraction(total_error + self.max_distance * count_error, size - count_error))


class PairStatistics(NamedTuple):
    """What a covariance is computed from, noisy, or the error of each: in steps, and in products of steps."""

    left: int  # Σ(x − c)
    right: int  # Σ(y − d)
    products: int  # Σ(x − c)(y − d)
    pairs: int  # how many


@dataclass(frozen=True, slots=True)
class PairAverage:
    """Covariances and correlations of two values.

    **Proof** of the interval of a correlation cov/√(v·w). If every statistic lies within its error, the covariance and the
    variances v and w lie in their intervals. A positive covariance over a smaller root is larger, a negative one smaller:
    so the ends of the intervals that lie furthest out give the ends of the quotient. Where a variance may be 0, nothing is
    known but that a correlation lies between −1 and 1.
    """

    left: Average
    right: Average

    @property
    def grid(self) -> Fraction:
        """The product of the sizes of two steps."""
        return self.left.grid * self.right.grid

    def estimate_covariance(self, noisy: PairStatistics, errors: PairStatistics) -> Estimate:
        """Return E(x − c)(y − d) − E(x − c)·E(y − d), no further from 0 than a quarter of the product of the ranges."""
        widths = (self.left.upper - self.left.lower) * (self.right.upper - self.right.lower)
        greatest, found = -(-(widths << FRACTION_BITS) // 4), _bound_covariance(noisy, errors)
        possible = found[0] <= greatest and found[2] >= -greatest
        low, guess, high = (min(max(x, -greatest), greatest) for x in found)
        if may_be_empty(noisy.pairs, errors.pairs):
            low, high = -greatest, greatest
        narrow = 4 * (high - low) <= 2 * greatest
        reliable = possible and narrow and is_reliable_count(noisy.pairs, errors.pairs) and is_close(guess, low, high)
        fine = self.left.exponent + self.right.exponent - FRACTION_BITS
        return Estimate(ldexp(guess, fine), to_double_below(low, fine), to_double_above(high, fine), reliable)

    def estimate_correlation(
        self, noisy: PairStatistics, errors: PairStatistics, squares: tuple[int, int], square_errors: tuple[int, int]
    ) -> Estimate:
        """Return the covariance over the root of the product of both variances, between −1 and 1."""
        sides = zip((self.left, self.right), noisy[:2], squares, errors[:2], square_errors, strict=True)
        v, w = (
            [
                min(max(x, 0), average.greatest_variance)
                for x in average.bound_variance(total, square, noisy.pairs, error, square_error, errors.pairs)
            ]
            for average, total, square, error, square_error in sides
        )
        least, root, most = (isqrt(x * y) for x, y in zip(v, w, strict=True))
        one, covariance = 1 << FRACTION_BITS, _bound_covariance(noisy, errors)
        low = _correlation_below(covariance[0], least, most + 1)
        high = -_correlation_below(-covariance[2], least, most + 1)
        possible = low <= high and low <= one and high >= -one
        guess = (covariance[1] << FRACTION_BITS) // root if root else 0
        low, high = (min(max(end, -one), one) for end in (low, high))
        if may_be_empty(noisy.pairs, errors.pairs):
            low, high = -one, one
        guess = min(max(guess, low), high)
        narrow = least > 0 and 4 * (high - low) <= 2 * one
        reliable = possible and narrow and is_reliable_count(noisy.pairs, errors.pairs) and is_close(guess, low, high)
        fine = -FRACTION_BITS
        return Estimate(ldexp(guess, fine), to_double_below(low, fine), to_double_above(high, fine), reliable)

    def covariance_half_width(self, size: int, errors: PairStatistics) -> Fraction:
        """Return the half-width of a covariance over a noisy count of `size`, for the worst averages."""
        most = Fraction((self.left.upper - self.left.lower) * (self.right.upper - self.right.lower), 4)
        if size <= errors.pairs:
            return most * self.grid
        x, y = self.left.max_distance, self.right.max_distance
        second = (errors.products + x * y * errors.pairs) / Fraction(size - errors.pairs)
        mean_x = self.left.mean_half_width_steps(size, errors.left, errors.pairs)
        mean_y = self.right.mean_half_width_steps(size, errors.right, errors.pairs)
        return min(most, second + x * mean_y + y * mean_x + mean_x * mean_y) * self.grid

    def correlation_half_width(self, size: int, errors: PairStatistics, square_errors: tuple[int, int]) -> float:
        """Return the half-width of a correlation over a noisy count of `size`, of values that are spread evenly over their
        ranges. For other values it depends on how large their variances are, which is private."""
        even, smallest = 1.0, 1.0
        for average, error, square_error in zip((self.left, self.right), errors[:2], square_errors, strict=True):
            variance = Fraction((average.upper - average.lower) ** 2, 12) * average.grid**2
            half = average.variance_half_width(size, error, square_error, errors.pairs)
            even, smallest = even * float(variance), smallest * float(max(variance - half, Fraction(0)))
        if smallest == 0:
            return 1.0
        return min(1.0, (sqrt(even) + float(self.covariance_half_width(size, errors))) / sqrt(smallest) - 1)


def _bound_covariance(noisy: PairStatistics, errors: PairStatistics) -> tuple[int, int, int]:
    """Return the least covariance, the likeliest and the greatest that the errors allow, in 2^-40 of a product of steps."""
    fewest, most, n = (max(1, noisy.pairs + move) for move in (-errors.pairs, errors.pairs, 0))
    x, y, second = (
        _ratio_bounds(total - error, total + error, fewest, most) for total, error in zip(noisy[:3], errors[:3], strict=True)
    )
    corners = [a * b for a in x for b in y]
    means = ((noisy.left << FRACTION_BITS) // n) * ((noisy.right << FRACTION_BITS) // n) >> FRACTION_BITS
    guess = (noisy.products << FRACTION_BITS) // n - means
    return second[0] - -(-max(corners) >> FRACTION_BITS), guess, second[1] - (min(corners) >> FRACTION_BITS)


def _correlation_below(covariance: int, least: int, most: int) -> int:
    """Return the least covariance/√(v·w) for a root between `least` and `most`, in 2^-40, rounded down."""
    root = most if covariance > 0 else least
    return (covariance << FRACTION_BITS) // root if root else -(1 << FRACTION_BITS)


def _ratio_bounds(low: int, high: int, fewest: int, most: int) -> tuple[int, int]:
    """Return the ends of [low, high]/[fewest, most], in 2^-40 steps, rounded outward."""
    least = (low << FRACTION_BITS) // (most if low > 0 else fewest)
    return least, -((-high << FRACTION_BITS) // (fewest if high > 0 else most))


def sum_tree_levels(counts: CellCounts, cells: Ints) -> Ints:
    """All levels' counts, root's children first, from the leaves' (one row per group)."""
    levels, size = [], 1
    for fan in counts.branching:
        size *= fan
        levels.append(cells.reshape(len(cells), size, -1).sum(axis=2))
    return np.concatenate(levels, axis=1)


@dataclass(frozen=True)
class QuantileEstimator:
    """Estimates one quantile from a tree of noisy counts."""

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

    def errors(self, noise: Noise, tail: float) -> Reals:
        """e(b) with P(D̃(b) − D(b) > e(b)) ≤ tail, and the same on the other side."""
        many = sum(self.tree.branching) - len(self.tree.branching) + 1
        table = [
            weighted_sum_error(noise, ((1 - self.q, k), (self.q, many - k)), tail) if k else 0.0 for k in range(many + 1)
        ]
        return np.array(table)[self.left_noise_counts]

    def rank_error(self, noise: Noise, tail: float) -> float:
        """Return how many rows the noisy rank of a fixed value may be off on one side, at the worst place."""
        return float(self.errors(noise, tail).max())

    def sizes(self, noisy: Ints) -> Ints:
        """The noisy number of rows of every group: the sum of the root's children, the fewest noises that add up to it."""
        return np.asarray(noisy[:, : self.tree.branching[0]].sum(axis=1))

    def size_error(self, noise: Noise, tail: float) -> float:
        """e with P(noisy size − size > e) ≤ tail, and the same on the other side."""
        return weighted_sum_error(noise, ((Fraction(1), self.tree.branching[0]),), tail)

    def locate(self, noisy: Ints, noise: Noise, tail: float) -> "QuantileLocation":
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


def estimate_quantiles(value: ast.Value, estimator: "QuantileEstimator", noisy: NoisyStatistics) -> Iterator[Estimate]:
    """Yield one quantile per group: a value of the grid, from the first step of the first cell to the last step of the last.
    A quantile of clipped values is one of them, so of whole numbers it is a whole number, and so are the interval's ends."""
    grid_range, tree = grid_range_of(value, noisy.table), estimator.tree
    width, noise, counts = cell_width_of(tree, grid_range), noisy.noises[tree], noisy.cell_counts[tree]
    found, sizes = estimator.locate(counts, noise, noisy.tail), estimator.sizes(counts).tolist()
    size_error = estimator.size_error(noise, noisy.tail)
    values = (tree.first_cell + found.cell) * width + np.rint(found.fraction * (width - 1)).astype(np.int64)
    lows, highs = (tree.first_cell + found.first_cell) * width, (tree.first_cell + found.last_cell + 1) * width - 1
    steps = (np.clip(ends, grid_range.lower, grid_range.upper).tolist() for ends in (values, lows, highs))
    for step, low, high, size, agree in zip(*steps, sizes, found.sides_agree.tolist(), strict=True):
        if may_be_empty(size, size_error):
            low, high = grid_range.lower, grid_range.upper
        narrow = 4 * (high - low) <= grid_range.upper - grid_range.lower  # else it says little more than the bounds do
        reliable = agree and narrow and is_reliable_count(size, size_error) and is_close(step, low, high)
        yield Estimate(*to_numbers(step, low, high, grid_range.exponent), reliable)
