"""Numbers as bounded whole steps of a power-of-two grid: the type of every numeric expression.

A span proves, before any row is read, that no intermediate result can overflow, raise or leave its bounds.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from typing import assert_never

from discreet.errors import QueryRefused
from discreet.query import ast
from discreet.query.schema import Column, Kind, Table

MAX_STEPS = 1 << 51
"""No expression may exceed this many steps: doubles hold whole numbers up to 2⁵³, and sums of rows need room."""

MAX_PRODUCT = 1 << 62
"""No intermediate product may reach this: 64-bit integers hold it with room for one addition."""

REAL_BITS = 20  # a real column is cut into about a million steps over its bounds
SMALLEST_REAL = Fraction(1, 1 << 900)  # scaling by the grid then stays far from the ends of a double's range
MAX_CACHED_RANGES = 1_000
"""Spans of one table that are kept: pricing a question looks at each of its own many times."""

CONSTANT_BITS = 30  # a constant that is no dyadic fraction is rounded to this many bits after the point


@dataclass(frozen=True, slots=True)
class GridRange:
    """Every value is n·2^exponent for a whole n between lower and upper."""

    lower: int
    upper: int
    exponent: int = 0

    @property
    def grid(self) -> Fraction:
        """The size of a step."""
        return Fraction(2) ** self.exponent

    @property
    def magnitude(self) -> int:
        """The largest distance from zero, in steps."""
        return max(abs(self.lower), abs(self.upper))

    def refine(self, exponent: int) -> "GridRange":
        """The same values in smaller steps."""
        factor = 1 << (self.exponent - exponent)
        return GridRange(self.lower * factor, self.upper * factor, exponent)


def grid_range_of(value: ast.Value, table: Table) -> GridRange:
    """The span of an expression; refused where a bound is missing or a result would grow too large."""
    found = table.grid_ranges.get(value)
    if found is None:
        found = _compute_checked(value, table)
        if len(table.grid_ranges) >= MAX_CACHED_RANGES:
            table.grid_ranges.clear()
        table.grid_ranges[value] = found
    assert isinstance(found, GridRange)
    return found


def _compute_checked(value: ast.Value, table: Table) -> GridRange:
    result = _compute(value, table)
    if result.magnitude >= MAX_STEPS:
        raise QueryRefused("this expression can grow past 2^51 grid steps", "declare tighter bounds, or multiply less")
    return result


def _compute(value: ast.Value, table: Table) -> GridRange:
    match value:
        case ast.Ref(column=name):
            return column_grid_range(name, table.columns[name])
        case ast.Number(value=constant):
            return constant_grid_range(constant)
        case ast.Plus(left=left, right=right):
            a, b = align(_compute_checked(left, table), _compute_checked(right, table))
            return GridRange(a.lower + b.lower, a.upper + b.upper, a.exponent)
        case ast.Minus(left=left, right=right):
            a, b = align(_compute_checked(left, table), _compute_checked(right, table))
            return GridRange(a.lower - b.upper, a.upper - b.lower, a.exponent)
        case ast.Times(left=left, right=right):
            a, b = _compute_checked(left, table), _compute_checked(right, table)
            ends = [x * y for x in (a.lower, a.upper) for y in (b.lower, b.upper)]
            return GridRange(min(ends), max(ends), a.exponent + b.exponent)
        case ast.Bin(value=inner, width=width):
            return compute_bin_range(_compute_checked(inner, table), width)
        case ast.Case(branches=branches, default=default):
            spans = [_compute_checked(branch, table) for _, branch in branches]
            spans += [] if default is None else [_compute_checked(default, table)]
            finest = min(span.exponent for span in spans)
            fine = [span.refine(finest) for span in spans]
            return GridRange(min(s.lower for s in fine), max(s.upper for s in fine), finest)
        case _:
            assert_never(value)


def compute_bin_range(a: GridRange, width: int | Fraction) -> GridRange:
    """The span of ⌊value/width⌋, if the whole numbers that compute it have room."""
    times, divisor = bin_factors(a, width)
    if a.magnitude * times + divisor >= MAX_PRODUCT:
        raise QueryRefused("this bin is far too fine or too wide for the values", "choose a width nearer to the bounds")
    return GridRange(floor(a.lower * a.grid / width), floor(a.upper * a.grid / width))


def bin_factors(a: GridRange, width: int | Fraction) -> tuple[int, int]:
    """(t, d) with ⌊n·2^exponent/width⌋ = ⌊n·t/d⌋."""
    divisor = width / a.grid
    return divisor.denominator, divisor.numerator


def check_comparable(left: ast.Value, right: ast.Value, table: Table) -> None:
    """Refuse to compare values whose common grid has no room for both."""
    a, b = align(grid_range_of(left, table), grid_range_of(right, table))
    if max(a.magnitude, b.magnitude) >= MAX_PRODUCT:
        raise QueryRefused("these values are too different in size to be compared", "compare each with a number")


def align(a: GridRange, b: GridRange) -> tuple[GridRange, GridRange]:
    """Both in the finer of the two grids."""
    finest = min(a.exponent, b.exponent)
    return a.refine(finest), b.refine(finest)


def column_grid_range(name: str, column: Column) -> GridRange:
    """A column's declared bounds, in steps. Reals are cut so finely that rounding to a step is far below the noise."""
    if column.kind is Kind.BOOLEAN:
        return GridRange(0, 1)
    if column.lower is None or column.upper is None or not column.kind.is_numeric:
        raise QueryRefused(
            f"{name} has no declared bounds",
            f"declare them, for example --bounds {name}=0:100: they are never read off the data",
        )
    if column.kind is Kind.INTEGER:
        if ceil(column.lower) > floor(column.upper):
            raise QueryRefused(f"no whole number lies within the bounds of {name}", "declare wider bounds")
        return GridRange(ceil(column.lower), floor(column.upper))
    widest = max(abs(column.lower), abs(column.upper))
    if not SMALLEST_REAL <= widest <= 1 / SMALLEST_REAL:
        raise QueryRefused(f"the bounds of {name} are outside what doubles can scale", "measure it in another unit")
    exponent = widest.numerator.bit_length() - widest.denominator.bit_length() - REAL_BITS
    grid = Fraction(2) ** exponent
    return GridRange(floor(column.lower / grid), ceil(column.upper / grid), exponent)


def constant_grid_range(constant: Fraction) -> GridRange:
    """A constant, exactly where it is dyadic, else rounded to 30 bits after the point."""
    bits = constant.denominator.bit_length() - 1
    exponent = -bits if constant.denominator == 1 << bits and bits <= CONSTANT_BITS else -CONSTANT_BITS
    steps = floor(constant / Fraction(2) ** exponent + Fraction(1, 2))
    return GridRange(steps, steps, exponent)
