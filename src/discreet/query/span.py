"""Numbers as bounded whole steps of a power-of-two grid: the type of every numeric expression.

A span proves, before any row is read, that no intermediate result can overflow, raise or leave its bounds.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from typing import assert_never

from discreet.errors import QuestionRefused
from discreet.query import plan
from discreet.query.table import Column, Kind, Table

LARGEST = 1 << 51
"""No expression may exceed this many steps: doubles hold whole numbers up to 2⁵³, and sums of rows need room."""

ROOM = 1 << 62
"""No intermediate product may reach this: 64-bit integers hold it with room for one addition."""

REAL_BITS = 20  # a real column is cut into about a million steps over its bounds
SMALLEST_REAL = Fraction(1, 1 << 900)  # scaling by the grid then stays far from the ends of a double's range
MOST_REMEMBERED = 1_000
"""Spans of one table that are kept: pricing a question looks at each of its own many times."""

CONSTANT_BITS = 30  # a constant that is no dyadic fraction is rounded to this many bits after the point


@dataclass(frozen=True, slots=True)
class Span:
    """Every value is n·2^exponent for a whole n between lower and upper."""

    lower: int
    upper: int
    exponent: int = 0

    @property
    def grid(self) -> Fraction:
        """The size of a step."""
        return Fraction(2) ** self.exponent

    @property
    def most(self) -> int:
        """The largest distance from zero, in steps."""
        return max(abs(self.lower), abs(self.upper))

    def finer(self, exponent: int) -> "Span":
        """The same values in smaller steps."""
        factor = 1 << (self.exponent - exponent)
        return Span(self.lower * factor, self.upper * factor, exponent)


def span_of(value: plan.Value, table: Table) -> Span:
    """The span of an expression; refused where a bound is missing or a result would grow too large."""
    found = table.spans.get(value)
    if found is None:
        found = _checked(value, table)
        if len(table.spans) >= MOST_REMEMBERED:
            table.spans.clear()
        table.spans[value] = found
    assert isinstance(found, Span)
    return found


def _checked(value: plan.Value, table: Table) -> Span:
    result = _span(value, table)
    if result.most >= LARGEST:
        raise QuestionRefused("this expression can grow past 2^51 grid steps", "declare tighter bounds, or multiply less")
    return result


def _span(value: plan.Value, table: Table) -> Span:
    match value:
        case plan.Ref(column=name):
            return column_span(name, table.columns[name])
        case plan.Number(value=constant):
            return constant_span(constant)
        case plan.Plus(left=left, right=right):
            a, b = aligned(_checked(left, table), _checked(right, table))
            return Span(a.lower + b.lower, a.upper + b.upper, a.exponent)
        case plan.Minus(left=left, right=right):
            a, b = aligned(_checked(left, table), _checked(right, table))
            return Span(a.lower - b.upper, a.upper - b.lower, a.exponent)
        case plan.Times(left=left, right=right):
            a, b = _checked(left, table), _checked(right, table)
            ends = [x * y for x in (a.lower, a.upper) for y in (b.lower, b.upper)]
            return Span(min(ends), max(ends), a.exponent + b.exponent)
        case plan.Bin(value=inner, width=width):
            return binned(_checked(inner, table), width)
        case plan.Case(branches=branches, default=default):
            spans = [_checked(branch, table) for _, branch in branches]
            spans += [] if default is None else [_checked(default, table)]
            finest = min(span.exponent for span in spans)
            fine = [span.finer(finest) for span in spans]
            return Span(min(s.lower for s in fine), max(s.upper for s in fine), finest)
        case _:
            assert_never(value)


def binned(a: Span, width: int | Fraction) -> Span:
    """The span of ⌊value/width⌋, if the whole numbers that compute it have room."""
    times, divisor = bin_factors(a, width)
    if a.most * times + divisor >= ROOM:
        raise QuestionRefused("this bin is far too fine or too wide for the values", "choose a width nearer to the bounds")
    return Span(floor(a.lower * a.grid / width), floor(a.upper * a.grid / width))


def bin_factors(a: Span, width: int | Fraction) -> tuple[int, int]:
    """(t, d) with ⌊n·2^exponent/width⌋ = ⌊n·t/d⌋."""
    divisor = width / a.grid
    return divisor.denominator, divisor.numerator


def comparable(left: plan.Value, right: plan.Value, table: Table) -> None:
    """Refuse to compare values whose common grid has no room for both."""
    a, b = aligned(span_of(left, table), span_of(right, table))
    if max(a.most, b.most) >= ROOM:
        raise QuestionRefused("these values are too different in size to be compared", "compare each with a number")


def aligned(a: Span, b: Span) -> tuple[Span, Span]:
    """Both in the finer of the two grids."""
    finest = min(a.exponent, b.exponent)
    return a.finer(finest), b.finer(finest)


def column_span(name: str, column: Column) -> Span:
    """A column's declared bounds, in steps. Reals are cut so finely that rounding to a step is far below the noise."""
    if column.kind is Kind.BOOLEAN:
        return Span(0, 1)
    if column.lower is None or column.upper is None or not column.kind.numeric:
        raise QuestionRefused(
            f"{name} has no declared bounds",
            f"declare them, for example --bounds {name}=0:100: they are never read off the data",
        )
    if column.kind is Kind.INTEGER:
        if ceil(column.lower) > floor(column.upper):
            raise QuestionRefused(f"no whole number lies within the bounds of {name}", "declare wider bounds")
        return Span(ceil(column.lower), floor(column.upper))
    widest = max(abs(column.lower), abs(column.upper))
    if not SMALLEST_REAL <= widest <= 1 / SMALLEST_REAL:
        raise QuestionRefused(f"the bounds of {name} are outside what doubles can scale", "measure it in another unit")
    exponent = widest.numerator.bit_length() - widest.denominator.bit_length() - REAL_BITS
    grid = Fraction(2) ** exponent
    return Span(floor(column.lower / grid), ceil(column.upper / grid), exponent)


def constant_span(constant: Fraction) -> Span:
    """A constant, exactly where it is dyadic, else rounded to 30 bits after the point."""
    bits = constant.denominator.bit_length() - 1
    exponent = -bits if constant.denominator == 1 << bits and bits <= CONSTANT_BITS else -CONSTANT_BITS
    steps = floor(constant / Fraction(2) ** exponent + Fraction(1, 2))
    return Span(steps, steps, exponent)
