"""The grid range of an expression contains each of its values, whatever a row holds."""

from datetime import date, datetime, timedelta
from fractions import Fraction
from math import ceil, floor
from random import Random

import pytest

from discreet.errors import QueryRefused
from discreet.query import ast
from discreet.query.contribution import bound_contributions, grouping_keys
from discreet.query.grid import (
    MAX_STEPS,
    GridRange,
    align,
    column_grid_range,
    first_day_of,
    floor_divisions_of,
    grid_range_of,
    list_periods,
    part_of,
    range_of_part,
)
from discreet.query.parser import parse_sql
from discreet.query.schema import Column, Kind, Table
from discreet.units import Neighbours

BOUNDS = {"a": (-3, 4), "b": (0, 5), "c": (-7, -2)}
TABLE = Table("t", "id", {"id": Column(Kind.INTEGER)} | {n: Column(Kind.INTEGER).with_bounds(*b) for n, b in BOUNDS.items()})


def expression(rng: Random, depth: int) -> ast.Value:
    kind = rng.randrange(10) if depth else rng.randrange(2)
    if kind == 0:
        return ast.Number(Fraction(rng.randint(-8, 8), rng.choice([1, 2, 4])))
    if kind == 1:
        return ast.Ref(rng.choice(list(BOUNDS)))
    left, right = expression(rng, depth - 1), expression(rng, depth - 1)
    if kind == 2:
        return ast.Case(((ast.Compare(ast.Order.LESS, ast.Ref("a"), ast.Ref("b")), left),), right)
    if kind == 3:
        return ast.Bin(left, rng.choice([1, 2, 3, Fraction(1, 2)]))
    if kind == 4:
        return ast.Divide(left, Fraction(rng.choice([1, -3, 7, 4]), rng.choice([1, 10, 3])))
    if kind == 5:
        rounding = rng.choice(list(ast.Rounding))
        return ast.Round(left, rounding, rng.choice([-1, 0, 1, 2]) if rounding is ast.Rounding.NEAREST else 0)
    if kind == 6:
        return rng.choice([ast.Abs(left), ast.Coalesce((left, right)), ast.Extreme((left, right), rng.random() < 0.5)])
    return rng.choice([ast.Plus, ast.Minus, ast.Times])(left, right)


def evaluate(value: ast.Value, row: dict[str, int]) -> Fraction:
    match value:
        case ast.Ref(column=name):
            return Fraction(row[name])
        case ast.Number(value=number):
            return number
        case ast.Bin(value=inner, width=width):
            return Fraction(floor(evaluate(inner, row) / width))
        case ast.Case(branches=((_, branch),), default=default):
            assert default is not None
            return evaluate(branch if row["a"] < row["b"] else default, row)
        case ast.Divide(value=inner, divisor=divisor):
            return nearest(evaluate(inner, row) / divisor, grid_range_of(value, TABLE).grid)
        case ast.Round(value=inner, rounding=rounding, digits=digits):
            scaled = evaluate(inner, row) * Fraction(10) ** digits
            rounded = {
                ast.Rounding.NEAREST: floor(scaled + Fraction(1, 2)),
                ast.Rounding.DOWN: floor(scaled),
                ast.Rounding.UP: ceil(scaled),
            }[rounding]
            return nearest(rounded / Fraction(10) ** digits, grid_range_of(value, TABLE).grid)
        case ast.Abs(value=inner):
            return abs(evaluate(inner, row))
        case ast.Coalesce(values=(first, *_)):
            return evaluate(first, row)
        case ast.Extreme(values=values, greatest=greatest):
            return (max if greatest else min)(evaluate(each, row) for each in values)
        case ast.Plus(left=left, right=right):
            return evaluate(left, row) + evaluate(right, row)
        case ast.Minus(left=left, right=right):
            return evaluate(left, row) - evaluate(right, row)
        case ast.Times(left=left, right=right):
            return evaluate(left, row) * evaluate(right, row)
    raise AssertionError(value)


def nearest(value: Fraction, step: Fraction) -> Fraction:
    return step * floor(value / step + Fraction(1, 2))


def holds(grid_range: GridRange, value: Fraction) -> bool:
    steps = value / grid_range.grid
    return steps.denominator == 1 and grid_range.lower <= steps <= grid_range.upper


def test_every_value_of_an_expression_is_in_its_range() -> None:
    rng, narrower = Random(4), 0
    for _ in range(400):
        value = expression(rng, 3)
        try:
            found = grid_range_of(value, TABLE)
        except QueryRefused:  # no room
            continue
        for _ in range(20):
            exact = evaluate(
                value, {name: rng.choice([low, high, rng.randint(low, high)]) for name, (low, high) in BOUNDS.items()}
            )
            assert holds(found, exact), value
            narrower += not holds(GridRange(found.lower + 1, found.upper - 1, found.exponent), exact)
    assert narrower > 100, "a range that is one step narrower is noticed"


@pytest.mark.parametrize(("lower", "upper"), [(0, 200), (-3, 5), (Fraction(1, 10), Fraction(3, 10)), (-(10**30), 1)])
def test_a_real_column_is_cut_into_about_a_million_steps_that_cover_its_bounds(lower: Fraction, upper: Fraction) -> None:
    found = column_grid_range("x", Column(Kind.REAL).with_bounds(lower, upper))
    assert found.lower * found.grid <= lower
    assert found.upper * found.grid >= upper
    assert 2**18 <= found.magnitude <= 2**21


def test_an_integer_column_keeps_its_integers() -> None:
    found = column_grid_range("x", Column(Kind.INTEGER).with_bounds(Fraction(-5, 2), Fraction(7, 2)))
    assert found == GridRange(ceil(Fraction(-5, 2)), 3)


def test_aligned_ranges_hold_the_same_values() -> None:
    a, b = align(GridRange(1, 3, 2), GridRange(-5, 7, -1))
    assert (a, b) == (GridRange(8, 24, -1), GridRange(-5, 7, -1))


WIDE = Table("t", "id", {"id": Column(Kind.INTEGER), "w": Column(Kind.INTEGER).with_bounds(-(2**40), 2**40),
                         "x": Column(Kind.REAL).with_bounds(0, Fraction(1, 10**200)), "text": Column(Kind.TEXT),
                         "free": Column(Kind.REAL)})  # fmt: skip


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("w * w", r"The expression `\(w \* w\)` can exceed 2\^51 steps of its grid"),
        ("w // 2147483647 + w * w", r"The expression `\(w \* w\)` can exceed"),
        ("x // 1", "The width of the bins of `x` is far too small or too large"),
        ("CASE WHEN w < x THEN 1 END", "`w` and `x` are too different in size"),
        ("text + 1", "The column `text` is of kind text, which cannot be computed with"),
        (
            "free + 1",
            r"The bounds of `free` are not declared, and clipping needs them. Declare them, .* bounds={.free.: \(0, 100\)}",
        ),
    ],
)
def test_an_expression_without_room_or_bounds_is_refused_by_name(value: str, message: str) -> None:
    query = parse_sql(f"SELECT SUM({value}) AS s FROM t", WIDE)
    with pytest.raises(QueryRefused, match=message):
        query.aggregates[0][1].check(WIDE)


def test_every_part_of_an_expression_is_remembered_and_stays_below_the_limit() -> None:
    table = Table("t", "id", dict(TABLE.columns))
    value = ast.Times(ast.Plus(ast.Ref("a"), ast.Ref("b")), ast.Ref("c"))
    grid_range_of(value, table)
    assert set(table.grid_ranges) == {value, value.left, value.right, ast.Ref("a"), ast.Ref("b")}
    assert all(each.magnitude < MAX_STEPS for each in table.grid_ranges.values())


@pytest.mark.parametrize("width", [1, 100, 2**20, 2**40])
@pytest.mark.parametrize("divisor", [3, -7, Fraction(37, 100), 12, 1000, Fraction(1, 3)])
def test_a_quotient_is_near_and_never_coarser_than_its_operand(width: int, divisor: Fraction) -> None:
    table = Table("t", "id", {"id": Column(Kind.INTEGER), "x": Column(Kind.INTEGER).with_bounds(0, width)})
    found = grid_range_of(ast.Divide(ast.Ref("x"), Fraction(divisor)), table)
    assert found.exponent <= 0
    assert found.grid <= Fraction(width) / abs(divisor) / 2**22 or found.grid <= 1
    [division] = floor_divisions_of(ast.Divide(ast.Ref("x"), Fraction(divisor)), table)
    for x in (0, 1, width // 3, width):
        steps = (x * division.times + division.plus) // division.divisor
        assert abs(steps * found.grid - x / Fraction(divisor)) <= found.grid / 2


@pytest.mark.parametrize(
    ("sql", "lower", "upper"),
    [
        ("GREATEST(a, 0)", 0, 4), ("LEAST(a, 0)", -3, 0), ("GREATEST(a, b)", -3, 5), ("GREATEST(a, COALESCE(b, 2))", 0, 5),
        ("COALESCE(a, 0)", -3, 4), ("COALESCE(a, 9, 100)", -3, 9), ("COALESCE(7, a)", 7, 7), ("ABS(a)", 0, 4),
        ("ABS(c)", 2, 7),
        ("NULLIF(a, 0)", -3, 4), ("a / 2", -3, 4), ("a / -1", -4, 3), ("ROUND(a, -1)", 0, 0), ("ROUND(c, -1)", -10, 0),
        ("FLOOR(c / 2)", -4, -1), ("CEIL(c / 2)", -3, -1), ("ROUND(c / 2)", -3, -1),
    ],
)  # fmt: skip
def test_the_range_of_a_function_is_as_narrow_as_its_parts_allow(sql: str, lower: int, upper: int) -> None:
    """A value that is never NULL bounds GREATEST and LEAST; one that may be NULL does not."""
    [(_, total)] = parse_sql(f"SELECT SUM({sql}) AS s FROM t", TABLE).aggregates
    found = grid_range_of(total.value, TABLE)  # type: ignore[attr-defined]
    assert (found.lower, found.upper) == (lower, upper)


@pytest.mark.parametrize("sql", ["wide / 0.123456789012345", "COALESCE(wide, 0.1)", "wide / 3 * wide"])
def test_where_there_is_no_room_a_function_is_refused(sql: str) -> None:
    table = Table("t", "id", {"id": Column(Kind.INTEGER), "wide": Column(Kind.INTEGER).with_bounds(-(2**40), 2**40)})
    query = parse_sql(f"SELECT SUM({sql}) AS s FROM t", table)
    with pytest.raises(QueryRefused, match=r"2\^51 steps|62 bits"):
        query.aggregates[0][1].check(table)


# -- parts and periods of dates between two bounds lie in their ranges and among their keys --------------------------------

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
