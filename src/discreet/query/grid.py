"""Numeric expressions as bounded integers on a power-of-two grid.

Engines add and compare integers exactly, and doubles only nearly. So every numeric expression is an integer number of steps
of a grid whose step is a power of two, and its `GridRange`, its type, is known from the declared bounds before any row is
read.

**Proof** that no row can make an expression overflow, raise or leave its range, by induction over the expression. A column
is clipped to its declared bounds and rounded to its grid; a constant is one point. Sums, differences and products of
integers in two ranges lie in the range that interval arithmetic gives; a CASE, COALESCE, GREATEST, LEAST and NULLIF have the
value of one of their parts, or NULL; |n| is defined because |n| < 2⁵¹ lies far from −2⁶³. Bins, rounding and division are
⌊(n·t + s)/d⌋ for constants t, s and d > 0, which is defined for every n and monotone in n, so the ends of the range decide.
A part of a date lies in the range that `range_of_part` derives from the bounds. Each result is refused unless it has fewer
than 2⁵¹ steps, and each intermediate product unless it is below 2⁶², so 64-bit integers hold them all.

**Proof** that no row leaves the parts and periods of dates, whose ranges and keys follow from a column's bounds. A date or
time d is clipped to its bounds first, lower ≤ d ≤ upper. The years of such dates lie between those of the bounds, and so do
the months if both bounds are in one year, and the days if they are in one month. The first day of a period is monotone in
d, so that of d is one of the periods from that of `lower` to that of `upper`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, datetime, timedelta
from fractions import Fraction
from math import ceil, floor
from typing import assert_never, cast

from discreet.errors import QueryRefused
from discreet.query import ast
from discreet.query.schema import Column, Key, Kind, Table

MAX_STEPS = 1 << 51
"""No expression may exceed this many steps: doubles hold integers up to 2⁵³, and sums of rows need room."""

MAX_PRODUCT = 1 << 62
"""No intermediate product may reach this: 64-bit integers hold it with room for one addition."""

REAL_BITS = 20  # a real column is cut into about a million steps over its bounds
SMALLEST_REAL = Fraction(1, 1 << 900)  # scaling by the grid then stays far from the ends of a double's range
QUOTIENT_BITS = 24  # a quotient by a constant that is not exact is cut into so many bits over its range
MULTIPLE_BITS = 4  # a multiple of 0.01 that a value is rounded to is represented to within 1/16 of 0.01
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
        case ast.Bin() | ast.Divide() | ast.Round():
            divisions = floor_divisions_of(value, table)
            return divisions[-1].result if divisions else grid_range_of(value.value, table)
        case ast.Case(branches=branches, default=default):
            return _hull([branch for _, branch in branches] + ([] if default is None else [default]), table)
        case ast.Abs(value=inner):
            a = grid_range_of(inner, table)
            return GridRange(max(a.lower, -a.upper, 0), a.magnitude, a.exponent)
        case ast.Coalesce(values=values):
            return _hull(reached_values(values), table)
        case ast.Extreme(values=values, greatest=greatest):
            return _extreme_range(values, greatest, table)
        case ast.NullIf(value=inner, other=other):
            found, compared = grid_range_of(inner, table), grid_range_of(other, table)
            return found if is_compared_unclipped(value, table) else align(found, compared)[0]
        case ast.DatePart(part=part, column=ref):
            return GridRange(*range_of_part(part, table.columns[ref.column]))
        case _:
            assert_never(value)


def _hull(values: Sequence[ast.Value], table: Table) -> GridRange:
    """Return the range of something that is always one of these values, in the finest of their grids."""
    ranges = [grid_range_of(each, table) for each in values]
    finest = min(each.exponent for each in ranges)
    ranges = [each.refine(finest) for each in ranges]
    return GridRange(min(each.lower for each in ranges), max(each.upper for each in ranges), finest)


def _extreme_range(values: tuple[ast.Value, ...], greatest: bool, table: Table) -> GridRange:
    """Return the range of GREATEST or LEAST, which pass over NULL: a value that is never NULL bounds it on one side."""
    hull = _hull(values, table)
    present = [grid_range_of(each, table).refine(hull.exponent) for each in values if _is_never_null(each)]
    if greatest:
        return GridRange(max([hull.lower, *(each.lower for each in present)]), hull.upper, hull.exponent)
    return GridRange(hull.lower, min([hull.upper, *(each.upper for each in present)]), hull.exponent)


def reached_values(values: tuple[ast.Value, ...]) -> tuple[ast.Value, ...]:
    """Return the values of COALESCE up to the first that is never NULL."""
    first = next((i for i, each in enumerate(values) if _is_never_null(each)), len(values) - 1)
    return values[: first + 1]


def is_compared_unclipped(value: ast.NullIf, table: Table) -> bool:
    """Return whether NULLIF compares a plain column of numbers with a number: as it is, so that a code can be removed that
    lies outside of the bounds."""
    match value:
        case ast.NullIf(value=ast.Ref(column=name), other=ast.Number()):
            return table.columns[name].kind in (Kind.INTEGER, Kind.REAL)
    return False


def _is_never_null(value: ast.Value) -> bool:
    match value:
        case ast.Number():
            return True
        case ast.Coalesce(values=values) | ast.Extreme(values=values):
            return any(map(_is_never_null, values))
    return False


# -- bins, rounding and division by a constant -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FloorDivision:
    """⌊(n·times + plus)/divisor⌋ for the steps n of `operand`; the divisor is above 0."""

    operand: GridRange
    times: int
    plus: int
    divisor: int
    exponent: int  # of the result

    @property
    def result(self) -> GridRange:
        """The range of the result: the function is monotone."""
        lower, upper = sorted((steps * self.times + self.plus) // self.divisor for steps in self._ends)
        return GridRange(lower, upper, self.exponent)

    @property
    def largest_integer(self) -> int:
        """A bound on the integers that compute it."""
        return max(abs(steps * self.times) for steps in self._ends) + self.plus + self.divisor

    @property
    def _ends(self) -> tuple[int, int]:
        return self.operand.lower, self.operand.upper


def floor_divisions_of(value: ast.Bin | ast.Divide | ast.Round, table: Table) -> tuple[FloorDivision, ...]:
    """Return the divisions, one after the other, by which a bin, a quotient or a rounded value follows from its operand."""
    inner = grid_range_of(value.value, table)
    match value:
        case ast.Bin(width=width):
            found = [_divide_steps(inner, 1 / Fraction(width), 0, ast.Rounding.DOWN)]
        case ast.Divide(divisor=divisor):
            found = [_divide_by(inner, divisor, inner.exponent)]
        case ast.Round(rounding=rounding, digits=digits):
            found = _round_steps(inner, rounding, digits)
        case _:
            assert_never(value)
    if max((each.largest_integer for each in found), default=0) >= MAX_PRODUCT:
        if isinstance(value, ast.Bin):
            raise QueryRefused(
                f"The width of the bins of {_quote(value.value)} is far too small or too large",
                "choose a width nearer to the bounds",
            )
        raise QueryRefused(
            f"The expression {_quote(value)} needs integers of more than 62 bits",
            "divide by a number of fewer digits, or round to fewer digits",
        )
    return tuple(found)


def _divide_steps(operand: GridRange, factor: Fraction, exponent: int, rounding: ast.Rounding) -> FloorDivision:
    """Return value·factor, rounded to steps of 2^exponent."""
    ratio = factor * operand.grid / Fraction(2) ** exponent
    divisor = ratio.denominator
    plus = {ast.Rounding.DOWN: 0, ast.Rounding.NEAREST: divisor // 2, ast.Rounding.UP: divisor - 1}[rounding]
    return FloorDivision(operand, ratio.numerator, plus, divisor, exponent)


def _divide_by(operand: GridRange, divisor: Fraction, coarsest: int) -> FloorDivision:
    """Return value/divisor to the nearest step of a grid, no coarser than 2^coarsest, that has 24 bits over the range.

    A quotient by ±2^k, or by 1/n, is exact: its grid is as fine as it takes.
    """
    power = _log2(abs(divisor.numerator))
    if power is not None:
        return _divide_steps(operand, 1 / divisor, operand.exponent - power, ast.Rounding.NEAREST)
    largest = max(operand.magnitude, 1) * operand.grid / abs(divisor)
    exponent = min(coarsest, _bits(largest) - QUOTIENT_BITS)
    return _divide_steps(operand, 1 / divisor, exponent, ast.Rounding.NEAREST)


def _round_steps(operand: GridRange, rounding: ast.Rounding, digits: int) -> list[FloorDivision]:
    """Return how many multiples of 10^-digits a value is, and then these multiples themselves."""
    multiple = Fraction(10) ** -digits
    if digits > 0 and (operand.grid / multiple).denominator == 1:  # each value is a multiple of it
        return []
    count = _divide_steps(operand, 1 / multiple, 0, rounding)
    if digits == 0:
        return [count]
    if digits < 0:
        return [count, FloorDivision(count.result, int(multiple), 0, 1, 0)]
    return [count, _divide_by(count.result, 1 / multiple, _bits(multiple) - MULTIPLE_BITS)]


def _log2(number: int) -> int | None:
    """Return k where the number is 2^k; None elsewhere."""
    return number.bit_length() - 1 if number & (number - 1) == 0 else None


def _bits(number: Fraction) -> int:
    """Return ⌊log₂ number⌋ or one more."""
    return number.numerator.bit_length() - number.denominator.bit_length()


# -- columns and constants -------------------------------------------------------------------------------------------------


def column_grid_range(name: str, column: Column) -> GridRange:
    """Return a column's declared bounds in steps. Reals are cut so finely that rounding to a step is far below the noise."""
    if column.kind is Kind.BOOLEAN:
        return GridRange(0, 1)
    if column.kind not in (Kind.INTEGER, Kind.REAL):
        raise QueryRefused(
            f"The column `{name}` is of kind {column.kind.value}, which cannot be computed with",
            "take YEAR(…) or MONTH(…) of it, count it, or compare it with a constant"
            if column.kind in (Kind.DATE, Kind.TIMESTAMP)
            else "count it, group by it, or compare it with constants; if it holds numbers, and marks such as NA, declare "
            'kind = "integer" or "real" in a policy (`discreet policy init`), and the marks are missing values',
        )
    if column.number_bounds is None:
        raise QueryRefused(
            f"The bounds of `{name}` are not declared, and clipping needs them",
            f'declare them, for example bounds={{"{name}": (0, 100)}}; they are never taken from the data',
            parameter="bounds",
        )
    lower, upper = column.number_bounds
    if column.kind is Kind.INTEGER:
        if ceil(lower) > floor(upper):
            raise QueryRefused(f"No integer lies within the bounds of `{name}`", "declare wider bounds")
        return GridRange(ceil(lower), floor(upper))
    largest = max(abs(lower), abs(upper))
    if not SMALLEST_REAL <= largest <= 1 / SMALLEST_REAL:
        raise QueryRefused(f"The bounds of `{name}` are outside of what doubles can scale", "use another unit of measure")
    exponent = _bits(largest) - REAL_BITS
    grid = Fraction(2) ** exponent
    return GridRange(floor(lower / grid), ceil(upper / grid), exponent)


def _constant_range(constant: Fraction) -> GridRange:
    """Return a constant, exactly where it is dyadic, else rounded to 30 bits after the point."""
    bits = constant.denominator.bit_length() - 1
    exponent = -bits if constant.denominator == 1 << bits and bits <= CONSTANT_BITS else -CONSTANT_BITS
    steps = floor(constant / Fraction(2) ** exponent + Fraction(1, 2))
    return GridRange(steps, steps, exponent)


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


def columns_in(part: object) -> list[str]:
    """Return the columns that a value or a condition computes with. A plain column that is compared with constants needs no
    bounds."""
    match part:
        case ast.Ref(column=name):
            return [name]
        case ast.Compare(left=ast.Ref(), right=ast.Number() | ast.Constant()):
            return []
        case ast.OneOf(value=ast.Ref()) | ast.Missing(value=ast.Ref()) | ast.Like():
            return []
        case tuple():
            return [name for each in part for name in columns_in(each)]
    return [name for each in fields(part) for name in columns_in(getattr(part, each.name))] if is_dataclass(part) else []


# -- parts and periods of dates --------------------------------------------------------------------------------------------


def part_of(moment: date, part: ast.Part) -> int:
    """Return a part of a date or time.

    >>> part_of(date(2024, 2, 29), ast.Part.QUARTER), part_of(date(2024, 2, 29), ast.Part.ISODOW)
    (1, 4)
    """
    match part:
        case ast.Part.QUARTER:
            return (moment.month + 2) // 3
        case ast.Part.ISODOW:
            return moment.isoweekday()
        case ast.Part.HOUR:
            return moment.hour if isinstance(moment, datetime) else 0
        case _:
            return int(getattr(moment, part.value))


FULL_RANGES = {
    ast.Part.QUARTER: (1, 4), ast.Part.MONTH: (1, 12), ast.Part.DAY: (1, 31), ast.Part.HOUR: (0, 23), ast.Part.ISODOW: (1, 7)
}  # fmt: skip
"""The range of each part that repeats."""


def range_of_part(part: ast.Part, column: Column) -> tuple[int, int]:
    """Return the least and the greatest value of a part: of the two bounds, if they have all larger parts in common."""
    lower, upper = column.moment_bounds
    larger = {
        ast.Part.YEAR: 0, ast.Part.QUARTER: 1, ast.Part.MONTH: 1, ast.Part.DAY: 2, ast.Part.HOUR: 3, ast.Part.ISODOW: None
    }[part]  # fmt: skip
    if larger is not None and lower.timetuple()[:larger] == upper.timetuple()[:larger]:
        return part_of(lower, part), part_of(upper, part)
    return FULL_RANGES[part]


def first_day_of(moment: date, period: ast.Period) -> date:
    """Return the first day of the period that a date or time is in. The first week of the year 1 begins on 0001-01-01.

    >>> first_day_of(date(2024, 2, 29), ast.Period.WEEK)
    datetime.date(2024, 2, 26)
    """
    match period:
        case ast.Period.DAY:
            return date(moment.year, moment.month, moment.day)
        case ast.Period.WEEK:
            return date.fromordinal(moment.toordinal() - moment.weekday())
        case ast.Period.MONTH:
            return date(moment.year, moment.month, 1)
        case ast.Period.QUARTER:
            return date(moment.year, (moment.month - 1) // 3 * 3 + 1, 1)
        case ast.Period.YEAR:
            return date(moment.year, 1, 1)
        case _:
            assert_never(period)


def list_periods(period: ast.Period, lower: date, upper: date) -> Iterator[date]:
    """Yield the first days of all periods from the one of `lower` to the one of `upper`."""
    longest = {ast.Period.DAY: 1, ast.Period.WEEK: 7, ast.Period.MONTH: 31, ast.Period.QUARTER: 92, ast.Period.YEAR: 366}
    day, last = first_day_of(lower, period), first_day_of(upper, period)
    while day < last:
        yield day
        day = first_day_of(day + timedelta(days=longest[period]), period)
    yield last


def narrow_periods(group: ast.Grouping, keys: tuple[Key, ...], where: ast.Condition | None) -> tuple[Key, ...]:
    """Leave out the periods that WHERE makes empty whatever the rows are: by its constants, which are part of the query.

    **Proof** that no row of a left-out period passes WHERE. Clipping and truncating, and so the key k(v) of a value v, are
    monotone. A condition v ≥ c gives k(v) ≥ k(c), and v ≤ c gives k(v) ≤ k(c); so do the conditions on the truncated v, as
    the key of a truncated value is its own. v < c is v ≤ c less the finest step: no period begins in between. Which keys
    are left depends on the query and the declared bounds alone, so it says nothing about the rows; and as only listed keys
    are answered, a mistake here could lose rows, never privacy.
    """
    if group.keys or not isinstance(group.value, ast.DateTrunc):
        return keys
    period, starts = group.value.period, cast("tuple[date, ...]", keys)
    least, most = starts[0], starts[-1]
    for part in list_conjuncts(where):
        match part:
            case ast.Compare(order=order, left=left, right=ast.Constant(value=date() as constant)):
                if left not in (group.value, group.value.column):
                    continue
                step = timedelta(microseconds=1) if isinstance(constant, datetime) else timedelta(days=1)
                is_strict = order is ast.Order.LESS and constant.toordinal() > 1
                first = first_day_of(constant, period)
                last = first_day_of(constant - step, period) if is_strict else first
                if order in (ast.Order.MORE, ast.Order.AT_LEAST, ast.Order.EQUAL):
                    least = max(least, min(first, starts[-1]))
                if order in (ast.Order.LESS, ast.Order.AT_MOST, ast.Order.EQUAL):
                    most = min(most, max(last, starts[0]))
            case _:
                pass
    return tuple(start for start in starts if least <= start <= most) or keys


def list_conjuncts(condition: ast.Condition | None) -> tuple[ast.Condition | None, ...]:
    """Return the conditions that all must hold; those of BETWEEN are two."""
    if not isinstance(condition, ast.All):
        return (condition,)
    return tuple(each for part in condition.parts for each in list_conjuncts(part))
