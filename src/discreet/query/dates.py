"""Parts and periods of dates: their ranges and keys follow from a column's bounds, before any row is read.

**Proof** that no row leaves them. A date or time d is clipped to its bounds first, lower ≤ d ≤ upper. The years of such
dates lie between those of the bounds, and so do the months if both bounds are in one year, and the days if they are in one
month.
The first day of a period is monotone in d, so that of d is one of the periods from that of `lower` to that of `upper`.
"""

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from typing import assert_never

from discreet.query import ast
from discreet.query.schema import Column


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
