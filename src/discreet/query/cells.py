"""From noisy integers to numbers with intervals, in whole numbers until the very end.

A cell's interval holds everything that its totals can be if each lies within its own error of the noisy one; divisions are
floored below and raised above, at 2^-40 of a grid step, and the last step to a double goes outward too.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt, ldexp
from typing import TypeAlias, assert_never

from discreet.query import plan
from discreet.query.bound import Bounded, Measure, Total, centre_of, measures_of

FINE = 40  # bits below a grid step that survive a division


@dataclass(frozen=True, slots=True)
class Cell:
    """One number of the answer with its interval. `reliable`: the half-width is at most a tenth of the noisy value."""

    value: float
    lower: float
    upper: float
    reliable: bool


Noisy: TypeAlias = Mapping[Measure, Sequence[int]]
Errors: TypeAlias = Callable[[Measure, int], int]
"""How far one of `size` totals may be off, all of them together holding with the confidence that was asked for."""


def cells(aggregate: plan.Aggregate, bounded: Bounded, noisy: Noisy, error: Errors) -> Iterator[Cell]:
    """The cells of one column, row by row."""
    measures = measures_of(aggregate, bounded.table)
    columns = zip(*(noisy[measure] for measure in measures), strict=True)
    errors = tuple(error(measure, len(measures)) for measure in measures)
    match aggregate:
        case plan.CountRows() | plan.CountUnits() | plan.CountValues():
            return (_whole(n, errors[0]) for (n,) in columns)
        case plan.Sum(value=value):
            exponent = bounded.span(Total(value, 0)).exponent
            return (_sum(n, errors[0], exponent) for (n,) in columns)
        case plan.Mean(value=value):
            average = Average.of(value, bounded)
            return (average.mean(s, n, *errors) for s, n in columns)
        case plan.Variance(value=value, root=root):
            average = Average.of(value, bounded)
            return (average.variance(s, q, n, *errors, root=root) for s, q, n in columns)
        case plan.Quantile() | plan.Histogram():
            raise AssertionError("bound() refuses these")
        case _:
            assert_never(aggregate)


def count_measure(aggregate: plan.Aggregate) -> bool:
    """Whether a column holds whole counts."""
    return isinstance(aggregate, plan.CountRows | plan.CountUnits | plan.CountValues)


def least_of(aggregate: plan.Aggregate, bounded: Bounded) -> Fraction | None:
    """A lower bound of the bounded answer that everybody knows, if there is one: what `non_negative` may lean on."""
    match aggregate:
        case plan.CountRows() | plan.CountUnits() | plan.CountValues() | plan.Variance():
            return Fraction(0)
        case plan.Sum(value=value):
            return Fraction(0) if bounded.span(Total(value, 0)).lower >= 0 else None
        case plan.Mean(value=value):
            span = bounded.span(Total(value, 0))
            return span.lower * span.grid
        case _:
            return None


def close(value: float, lower: float, upper: float) -> bool:
    """Whether the half-width is at most a tenth of the noisy value."""
    return 5 * (upper - lower) <= abs(value)


def _whole(n: int, off: int) -> Cell:
    return Cell(n, n - off, n + off, close(n, n - off, n + off))


def _sum(n: int, off: int, exponent: int) -> Cell:
    sure = close(n, n - off, n + off)
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
        low, guess, high = (min(max(base + x, least), greatest) for x in (low, guess, high))
        told = 4 * (high - low) <= greatest - least  # else the interval says little more than the declared range does
        sure = told and count > off_count and close(guess, low, high)
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
        low, guess, high = (min(max(x, 0), greatest) for x in (low, guess, high))
        sure, fine = count > off_count and 4 * (high - low) <= greatest, 2 * self.exponent - FINE
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
