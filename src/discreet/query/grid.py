"""Numeric expressions as bounded integers on a power-of-two grid.

Engines add and compare integers exactly, and doubles only nearly. So every numeric expression is an integer number of steps
of a grid whose step is a power of two, and its `GridRange`, its type, is known from the declared bounds before any row is
read.

**Proof** that no row can make an expression overflow, raise or leave its range, by induction over the expression. A column
is clipped to its declared bounds and rounded to its grid; a constant is one point. Sums, differences and products of
integers in two ranges lie in the range that interval arithmetic gives; a CASE has one of its branches' values; a bin is
⌊n·t/d⌋ with d > 0, which is defined for every n. Each result is refused unless it has fewer than 2⁵¹ steps, and each
intermediate product unless it is below 2⁶², so 64-bit integers hold them all.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from typing import assert_never

from discreet.errors import QueryRefused
from discreet.query import ast
from discreet.query.schema import Column, Kind, Table

MAX_STEPS = 1 << 51
"""No expression may exceed this many steps: doubles hold integers up to 2⁵³, and sums of rows need room."""

MAX_PRODUCT = 1 << 62
"""No intermediate product may reach this: 64-bit integers hold it with room for one addition."""

REAL_BITS = 20  # a real column is cut into about a million steps over its bounds
SMALLEST_REAL = Fraction(1, 1 << 900)  # scaling by the grid then stays far from the ends of a double's range
CONSTANT_BITS = 30  # a constant that is not a dyadic fraction is rounded to this many bits after the point

MAX_QUOTED = 60  # characters of an expression in a message
MAX_CACHED_RANGES = 1_000
"""How many ranges are remembered per table: calibrating a query looks at each of its own many times."""


@dataclass(frozen=True, slots=True)
class GridRange:
    """The values n·2^exponent for the integers n from lower to upper."""

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
        """Return the same values in smaller steps."""
        factor = 1 << (self.exponent - exponent)
        return GridRange(self.lower * factor, self.upper * factor, exponent)


def grid_range_of(value: ast.Value, table: Table) -> GridRange:
    """Return the range of an expression, refused where a bound is missing or a result could grow too large.

    >>> people = Table("people", "id", {"id": Column(Kind.INTEGER), "age": Column(Kind.INTEGER).with_bounds(18, 65)})
    >>> grid_range_of(ast.Times(ast.Ref("age"), ast.Number(Fraction(-2))), people)
    GridRange(lower=-130, upper=-36, exponent=0)
    """
    found = table.grid_ranges.get(value)
    if found is None:
        found = _compute_range(value, table)
        if found.magnitude >= MAX_STEPS:
            raise QueryRefused(
                f"The expression {_quote(value)} can exceed 2^51 steps of its grid",
                "declare tighter bounds, or multiply less",
            )
        if len(table.grid_ranges) >= MAX_CACHED_RANGES:
            table.grid_ranges.clear()
        table.grid_ranges[value] = found
    assert isinstance(found, GridRange)
    return found


def _compute_range(value: ast.Value, table: Table) -> GridRange:
    match value:
        case ast.Ref(column=name):
            return column_grid_range(name, table.columns[name])
        case ast.Number(value=constant):
            return _constant_range(constant)
        case ast.Plus(left=left, right=right):
            a, b = align(grid_range_of(left, table), grid_range_of(right, table))
            return GridRange(a.lower + b.lower, a.upper + b.upper, a.exponent)
        case ast.Minus(left=left, right=right):
            a, b = align(grid_range_of(left, table), grid_range_of(right, table))
            return GridRange(a.lower - b.upper, a.upper - b.lower, a.exponent)
        case ast.Times(left=left, right=right):
            a, b = grid_range_of(left, table), grid_range_of(right, table)
            products = [x * y for x in (a.lower, a.upper) for y in (b.lower, b.upper)]
            return GridRange(min(products), max(products), a.exponent + b.exponent)
        case ast.Bin(value=inner, width=width):
            return _bin_range(grid_range_of(inner, table), width, inner)
        case ast.Case(branches=branches, default=default):
            values = [branch for _, branch in branches] + ([] if default is None else [default])
            ranges = [grid_range_of(each, table) for each in values]
            finest = min(each.exponent for each in ranges)
            ranges = [each.refine(finest) for each in ranges]
            return GridRange(min(each.lower for each in ranges), max(each.upper for each in ranges), finest)
        case _:
            assert_never(value)


def column_grid_range(name: str, column: Column) -> GridRange:
    """Return a column's declared bounds in steps. Reals are cut so finely that rounding to a step is far below the noise."""
    if column.kind is Kind.BOOLEAN:
        return GridRange(0, 1)
    if column.kind not in (Kind.INTEGER, Kind.REAL):
        raise QueryRefused(
            f"The column `{name}` holds a {column.kind.value}, which cannot be computed with",
            "count it, group by it, or compare it with constants",
        )
    if column.lower is None or column.upper is None:
        raise QueryRefused(
            f"The bounds of `{name}` are not declared, and clipping needs them",
            f'declare them, for example bounds={{"{name}": (0, 100)}}; they are never taken from the data',
            parameter="bounds",
        )
    if column.kind is Kind.INTEGER:
        if ceil(column.lower) > floor(column.upper):
            raise QueryRefused(f"No integer lies within the bounds of `{name}`", "declare wider bounds")
        return GridRange(ceil(column.lower), floor(column.upper))
    largest = max(abs(column.lower), abs(column.upper))
    if not SMALLEST_REAL <= largest <= 1 / SMALLEST_REAL:
        raise QueryRefused(f"The bounds of `{name}` are outside of what doubles can scale", "use another unit of measure")
    exponent = largest.numerator.bit_length() - largest.denominator.bit_length() - REAL_BITS
    grid = Fraction(2) ** exponent
    return GridRange(floor(column.lower / grid), ceil(column.upper / grid), exponent)


def _constant_range(constant: Fraction) -> GridRange:
    """Return a constant, exactly where it is dyadic, else rounded to 30 bits after the point."""
    bits = constant.denominator.bit_length() - 1
    exponent = -bits if constant.denominator == 1 << bits and bits <= CONSTANT_BITS else -CONSTANT_BITS
    steps = floor(constant / Fraction(2) ** exponent + Fraction(1, 2))
    return GridRange(steps, steps, exponent)


def _bin_range(inner: GridRange, width: int | Fraction, value: ast.Value) -> GridRange:
    """Return the range of ⌊value/width⌋, refused if the integers that compute it have no room."""
    factor, divisor = bin_factors(inner, width)
    if inner.magnitude * factor + divisor >= MAX_PRODUCT:
        raise QueryRefused(
            f"The width of the bins of {_quote(value)} is far too small or too large", "choose a width nearer to the bounds"
        )
    return GridRange(floor(inner.lower * inner.grid / width), floor(inner.upper * inner.grid / width))


def bin_factors(inner: GridRange, width: int | Fraction) -> tuple[int, int]:
    """Return (t, d) with ⌊n·2^exponent/width⌋ = ⌊n·t/d⌋."""
    divisor = width / inner.grid
    return divisor.denominator, divisor.numerator


def align(a: GridRange, b: GridRange) -> tuple[GridRange, GridRange]:
    """Return both ranges in the finer of the two grids."""
    finest = min(a.exponent, b.exponent)
    return a.refine(finest), b.refine(finest)


def check_comparable(left: ast.Value, right: ast.Value, table: Table) -> None:
    """Refuse to compare two expressions if no common grid has room for both."""
    a, b = align(grid_range_of(left, table), grid_range_of(right, table))
    if max(a.magnitude, b.magnitude) >= MAX_PRODUCT:
        raise QueryRefused(
            f"The expressions {_quote(left)} and {_quote(right)} are too different in size to be compared",
            "compare each with a number",
        )


def _quote(value: ast.Value) -> str:
    text = ast.format_value(value)
    return f"`{text}`" if len(text) <= MAX_QUOTED else f"`{text[:MAX_QUOTED]}…`"
