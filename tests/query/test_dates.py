"""Parts and periods of dates between two bounds lie in their ranges and among their keys, and no key is in vain."""

from datetime import date, datetime, timedelta
from random import Random

import pytest

from discreet.errors import QueryRefused
from discreet.query import ast
from discreet.query.contribution import bound_contributions, grouping_keys
from discreet.query.dates import first_day_of, list_periods, part_of, range_of_part
from discreet.query.parser import parse_sql
from discreet.query.schema import Column, Kind, Table
from discreet.units import Neighbours

ENDS = [date(1, 1, 1), date(1, 1, 9), date(1999, 12, 27), date(2024, 2, 28), date(2024, 2, 29), date(2024, 12, 31)]
ENDS += [date(2025, 1, 1), date(9999, 12, 20), date(9999, 12, 31)]


def random_bounds(rng: Random) -> tuple[date, date]:
    first = rng.choice([*ENDS, date.fromordinal(rng.randint(1, date.max.toordinal()))])
    days = min(rng.choice([0, 1, 6, 40, 400, 1500]), date.max.toordinal() - first.toordinal())
    return first, first + timedelta(days=days)


@pytest.mark.parametrize("seed", range(30))
def test_every_day_between_the_bounds_is_in_the_ranges_and_among_the_keys(seed: int) -> None:
    lower, upper = random_bounds(Random(seed))
    column = Column(Kind.DATE).with_bounds(lower, upper)
    days = [lower + timedelta(days=i) for i in range((upper - lower).days + 1)]
    for part in ast.Part:
        least, most = range_of_part(part, column)
        parts = {part_of(day, part) for day in days}
        assert parts <= set(range(least, most + 1))
        assert part is not ast.Part.YEAR or parts == set(range(least, most + 1))
    for period in ast.Period:
        assert list(list_periods(period, lower, upper)) == sorted({first_day_of(day, period) for day in days})


def test_the_hours_of_one_day_are_those_between_the_bounds() -> None:
    times = Column(Kind.TIMESTAMP).with_bounds("2024-05-05T08:00", "2024-05-05T17:30")
    assert range_of_part(ast.Part.HOUR, times) == (8, 17)
    assert range_of_part(ast.Part.HOUR, Column(Kind.TIMESTAMP).with_bounds("2024-05-05", "2024-05-06")) == (0, 23)
    assert part_of(datetime(2024, 5, 5, 8), ast.Part.HOUR) == 8


PEOPLE = Table(
    "people",
    "id",
    {
        "id": Column(Kind.INTEGER),
        "day": Column(Kind.DATE).with_bounds("2023-11-15", "2024-02-10"),
        "free": Column(Kind.DATE),
        "pay": Column(Kind.REAL).with_bounds(-5, 24),
    },
)
KEYS = [
    ("YEAR(day)", (2023, 2024)), ("MONTH(day)", tuple(range(1, 13))), ("MONTH(free)", tuple(range(1, 13))),
    ("QUARTER(free)", (1, 2, 3, 4)), ("ISODOW(free)", (1, 2, 3, 4, 5, 6, 7)), ("YEAR(free)", None),
    ("DATE_TRUNC('month', free)", None), ("DATE_TRUNC('year', day)", (date(2023, 1, 1), date(2024, 1, 1))),
    ("DATE_TRUNC('quarter', day)", (date(2023, 10, 1), date(2024, 1, 1))),
    ("DATE_TRUNC('month', day)", (date(2023, 11, 1), date(2023, 12, 1), date(2024, 1, 1), date(2024, 2, 1))),
    ("ROUND(pay, -1)", (0, 10, 20)), ("FLOOR(pay / 10)", (-1, 0, 1, 2)), ("CEIL(pay) ", tuple(range(-5, 25))), ("day", None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "keys"), KEYS)
def test_keys_follow_from_the_bounds(text: str, keys: tuple[object, ...] | None) -> None:
    [group] = parse_sql(f"SELECT COUNT(*) AS n FROM people GROUP BY {text}", PEOPLE).groups
    assert grouping_keys(group, PEOPLE) == keys


def test_weeks_begin_on_monday_and_are_named_by_it() -> None:
    query = parse_sql("SELECT DATE_TRUNC('week', day) AS week, COUNT(*) AS n FROM people GROUP BY week", PEOPLE)
    bounded = bound_contributions(query, PEOPLE, Neighbours.ADD_REMOVE)
    assert bounded.keys is not None
    assert len(bounded.keys) == 13
    assert {day.weekday() for (day,) in bounded.keys if isinstance(day, date)} == {0}
    assert query.groups[0].name == "week"


@pytest.mark.parametrize("digits", [1, 2, 15])
def test_values_with_decimals_are_refused_as_keys(digits: int) -> None:
    query = parse_sql(f"SELECT COUNT(*) AS n FROM people GROUP BY ROUND(pay, {digits})", PEOPLE)
    with pytest.raises(QueryRefused, match="Values with decimals cannot be group keys"):
        bound_contributions(query, PEOPLE, Neighbours.ADD_REMOVE)
