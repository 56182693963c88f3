"""Random tables about people, random policies and random queries, each from one seeded source."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from math import inf, nan, nextafter
from random import Random
from typing import Any

import duckdb

from discreet.engines.base import Engine
from discreet.engines.duckdb.engine import DuckDB
from discreet.errors import QueryRefused
from discreet.query import aggregates, ast
from discreet.query.contribution import BoundedQuery, bound_contributions
from discreet.query.schema import ROW, Column, Kind, Table, format_unit
from discreet.query.statistics import Statistic
from discreet.units import Neighbours
from tests.support.oracle import Row, reference, unit_of

TYPES = {
    "uid": "BIGINT", "age": "INTEGER", "wide": "BIGINT", "huge": "HUGEINT", "big": "UBIGINT", "pay": "DOUBLE",
    "small": "FLOAT", "price": "DECIMAL(18,3)", "ok": "BOOLEAN", "dept": "VARCHAR", "day": "DATE", "at": "TIMESTAMP",
}  # fmt: skip
TEXTS = ["a", "b", "", "ÅÄö", "日本", "'; DROP TABLE people; --", 'q"uote', "a\\", "1:a", "-", "e\u0301", "\n", "😀"]
PATTERNS = [
    *(
        "%",
        "_",
        "",
        "a%",
        "%a",
        "%a%",
        "a_",
        "__",
        "_%_",
        "%_",
        "a%\n",
        "%\n%",
        "日_",
        "_本",
        "😀",
        "%😀%",
        "A%",
        "e_",
        "é%",
    ),
    *("%'%", '%"%', "%--", "1:%", "[a-z]", "(%", "*", ".", ".*", "$%", "%^%", "ÅÄö%", "%ö", "a%%", "%D%E%", "^a"),
]
"""Patterns of LIKE: wildcards, what is special in regular expressions, quotes, line ends, characters of several bytes."""
DAYS = [date(2024, 1, 1) + timedelta(days=d) for d in (0, 1, 59, 366)] + [date(1, 1, 1), date(9999, 12, 31)]
TIMES = [datetime(2024, 1, 1), datetime(2024, 1, 1, 12, 30, 15, 120000), datetime(1999, 12, 31, 23, 59, 59, 999999)]
REALS = [
    0.0,
    -0.0,
    0.1,
    -0.1,
    0.5,
    nextafter(0.5, 0),
    1.5,
    2.5,
    -2.5,
    100.0,
    1e300,
    -1e300,
    5e-324,
    nan,
    inf,
    -inf,
    3.75,
    0.1 + 0.2,
]
WIDE = [0, 1, -1, 7, 2**62, -(2**62), 2**63 - 1, -(2**63), 10, -10, 11, -11]


def cell(rng: Random, name: str) -> Any:
    """A value that the engine's column can hold, missing now and then."""
    if rng.random() < 0.12:
        return None
    match name:
        case "age":
            return rng.choice([rng.randint(-20, 120), rng.randint(-(2**31), 2**31 - 1), 0, 9, 10, -1])
        case "wide":
            return rng.choice(WIDE)
        case "huge":
            return rng.choice([*WIDE, 2**126, -(2**126), 2**63])
        case "big":
            return rng.choice([0, 1, 10, 2**63, 2**64 - 1])
        case "pay":
            return rng.choice([*REALS, rng.uniform(-50, 50), rng.uniform(0, 1)])
        case "small":
            return rng.choice([0.5, -2.25, nan, inf, -inf, 100.0, 0.0])
        case "price":
            return rng.choice([Decimal("0.001"), Decimal("-5.125"), Decimal("999999999999.999"), Decimal("12.300")])
        case "ok":
            return rng.random() < 0.5
        case "dept":
            return rng.choice(TEXTS)
        case "day":
            return rng.choice(DAYS)
        case _:
            return rng.choice(TIMES)


@dataclass(frozen=True)
class World:
    """A table with its policy and its rows."""

    table: Table
    rows: tuple[Row, ...]
    types: dict[str, str]

    def without(self, unit: Any) -> "World":
        kept = (row for i, row in enumerate(self.rows) if unit_of(self.table, row, i) != unit)
        return replace(self, rows=tuple(kept))

    def plus(self, rows: list[Row]) -> "World":
        return replace(self, rows=(*self.rows, *rows))

    @property
    def units(self) -> list[Any]:
        units = (unit_of(self.table, row, i) for i, row in enumerate(self.rows))
        return list(dict.fromkeys(unit for unit in units if unit is not None))


def policy(rng: Random, *, unique: bool, text_units: bool) -> Table:
    """Declared bounds, keys and contributions, none of them read off any data."""

    def maybe_keys(column: Column, choices: list[Any]) -> Column:
        if rng.random() < 0.4:
            return column
        listed = rng.sample(choices, rng.randint(1, len(choices)))
        return column.with_keys((*listed, None) if rng.random() < 0.3 else tuple(listed))

    def maybe_bounds(column: Column) -> Column:
        bounds = [None, ("2024-01-01", "2024-03-31"), ("1999-12-31", "2025-01-01"), ("0001-01-01", "0001-01-01")]
        chosen = rng.choice(bounds)
        return column if chosen is None else column.with_bounds(*chosen)

    reals = rng.choice([(0, 1), (-1, 1), (Fraction(-1, 10), Fraction(3, 10)), (0, 200), (-5, Fraction(1, 3)), (100, 107)])
    columns = {
        "uid": Column(Kind.TEXT if text_units else Kind.INTEGER),
        "age": maybe_keys(
            Column(Kind.INTEGER).with_bounds(*rng.choice([(0, 100), (-17, 23), (-50, -3), (Fraction(1, 2), 9)])), [0, 9, 10]
        ),
        "wide": maybe_keys(Column(Kind.INTEGER).with_bounds(*rng.choice([(-10, 10), (0, 2**30), (-(2**50), 2**50)])), WIDE),
        "huge": maybe_keys(Column(Kind.INTEGER).with_bounds(-11, 1000), [0, 1, 7, -(2**62)]),
        "big": Column(Kind.INTEGER).with_bounds(-5, 10**9),
        "pay": Column(Kind.REAL).with_bounds(*reals),
        "small": Column(Kind.REAL).with_bounds(-3, 50),
        "price": Column(Kind.REAL).with_bounds(0, 1000),
        "ok": maybe_keys(Column(Kind.BOOLEAN), [True, False]),
        "dept": maybe_keys(Column(Kind.TEXT), TEXTS),
        "day": maybe_bounds(maybe_keys(Column(Kind.DATE), DAYS)),
        "at": maybe_bounds(maybe_keys(Column(Kind.TIMESTAMP), TIMES)),
    }
    return Table(
        "people",
        "uid",
        columns,
        rng.choice([1, 1, 2, 3, 50]),
        rng.choice([1, 2, 3, 7, 100]),
        unique,
        rng.choice(["discreet", "s|alt:"]),
    )


def person(rng: Random, unit: Any, most: int) -> list[Row]:
    """The rows of one unit: often one, sometimes many."""
    return [{name: unit if name == "uid" else cell(rng, name) for name in TYPES} for _ in range(rng.choice([1, 1, 2, most]))]


def world(rng: Random) -> World:
    """A small table: empty, of one row, or of several people, some with many rows and some without a name."""
    unique, text_units = rng.random() < 0.2, rng.random() < 0.4
    names: list[Any] = rng.sample(["ann", "bob", "Ö", "", "7", "日", "x|y"], 7) if text_units else [*range(-2, 5), 2**62]
    rows: list[Row] = []
    for unit in names[: rng.choice([0, 1, 3, 6, 6])]:
        rows += person(rng, unit, 1 if unique else rng.choice([3, 12]))[: 1 if unique else None]
    rows += person(rng, None, 3) if rng.random() < 0.3 else []
    rng.shuffle(rows)
    return World(
        policy(rng, unique=unique, text_units=text_units),
        tuple(rows),
        TYPES | {"uid": "VARCHAR" if text_units else "BIGINT"},
    )


Declaring = Callable[[Random, World], World]
"""Gives a table another privacy unit."""


def as_it_is(rng: Random, table: World) -> World:
    return table


def with_row_units(rng: Random, table: World) -> World:
    """The same rows, each of them one person."""
    return replace(table, table=replace(table.table, unit=ROW))


UNIT_COLUMNS = ("uid", "dept", "ok", "day", "age")


def with_several_columns(rng: Random, table: World) -> World:
    """The same rows, with a unit of two or three columns."""
    unit = format_unit(rng.sample(UNIT_COLUMNS, rng.choice([2, 2, 3])))
    return replace(table, table=replace(table.table, unit=unit, unique=False))


# -- queries ---------------------------------------------------------------------------------------------------------------

NUMERIC = ["age", "wide", "huge", "big", "pay", "small", "price", "ok"]
NUMBERS = [Fraction(n) for n in (0, 1, 2, 3, 10, -1, -7)] + [
    Fraction(1, 2),
    Fraction(-5, 4),
    Fraction(1, 10),
    Fraction(33, 100),
]
KEYED = ["age", "wide", "huge", "ok", "dept", "day", "at", "uid"]


DIVISORS = [Fraction(n) for n in (2, 3, 12, -7, 1000, -4)] + [Fraction(1, 10), Fraction(37, 100), Fraction(-3, 2)]


def value(rng: Random, depth: int = 2) -> ast.Value:
    """A numeric expression."""
    kind = rng.random()
    if depth == 0 or kind < 0.4:
        return ast.Ref(rng.choice(NUMERIC)) if rng.random() < 0.85 else ast.Number(abs(rng.choice(NUMBERS)))
    if kind < 0.6:
        make = rng.choice([ast.Plus, ast.Minus, ast.Times])
        return make(value(rng, depth - 1), value(rng, depth - 1))
    if kind < 0.68:
        return ast.Bin(value(rng, depth - 1), rng.choice([1, 2, 3, 10, 1000]))
    if kind < 0.92:
        return function(rng, depth)
    branches = tuple((condition(rng, depth - 1), value(rng, depth - 1)) for _ in range(rng.choice([1, 2])))
    return ast.Case(branches, value(rng, depth - 1) if rng.random() < 0.6 else None)


def function(rng: Random, depth: int) -> ast.Value:
    """A function of values, or of a date."""
    several = tuple(value(rng, depth - 1) for _ in range(rng.choice([2, 2, 3])))
    match rng.randrange(7):
        case 0:
            return ast.Divide(several[0], rng.choice(DIVISORS))
        case 1:
            return rounded(rng, several[0], [-2, -1, 0, 0, 1, 2])
        case 2:
            return ast.Abs(several[0])
        case 3:
            return ast.Coalesce(several)
        case 4:
            return ast.Extreme(several, rng.random() < 0.5)
        case 5:
            return ast.NullIf(several[0], several[1] if rng.random() < 0.5 else ast.Number(rng.choice(NUMBERS)))
        case _:
            return date_part(rng)


def rounded(rng: Random, inner: ast.Value, digits: list[int]) -> ast.Round:
    rounding = rng.choice(list(ast.Rounding))
    return ast.Round(inner, rounding, rng.choice(digits) if rounding is ast.Rounding.NEAREST else 0)


def date_part(rng: Random) -> ast.DatePart:
    part = rng.choice(list(ast.Part))
    return ast.DatePart(part, ast.Ref("at" if part is ast.Part.HOUR else rng.choice(["day", "at"])))


def date_trunc(rng: Random) -> ast.DateTrunc:
    return ast.DateTrunc(rng.choice(list(ast.Period)), ast.Ref(rng.choice(["day", "at"])))


def compound(rng: Random, depth: int) -> ast.Value:
    """A numeric expression that is no bare constant."""
    found = value(rng, depth)
    return ast.Ref("ok") if isinstance(found, ast.Number) else found


def constant(rng: Random, name: str, kind: Kind) -> "ast.Number | ast.Constant":
    if kind in (Kind.INTEGER, Kind.REAL):
        return ast.Number(rng.choice(NUMBERS))
    choices = {Kind.TEXT: TEXTS, Kind.BOOLEAN: [True, False], Kind.DATE: DAYS, Kind.TIMESTAMP: TIMES}[kind]
    return ast.Constant(rng.choice(choices))


KINDS = {
    "age": Kind.INTEGER, "wide": Kind.INTEGER, "huge": Kind.INTEGER, "big": Kind.INTEGER, "pay": Kind.REAL,
    "small": Kind.REAL, "price": Kind.REAL, "ok": Kind.BOOLEAN, "dept": Kind.TEXT, "day": Kind.DATE, "at": Kind.TIMESTAMP,
}  # fmt: skip


def condition(rng: Random, depth: int = 2) -> ast.Condition:
    """Something that is true, false or unknown of a row."""
    kind, name = rng.random(), rng.choice(list(KINDS))
    order = rng.choice(list(ast.Order))
    if depth > 0 and kind < 0.35:
        make = rng.choice([ast.All, ast.Any])
        parts = [condition(rng, depth - 1) for _ in range(rng.choice([2, 3]))]
        flat = tuple(ast.Not(part) if isinstance(part, make) else part for part in parts)
        return make(flat)
    if depth > 0 and kind < 0.45:
        return ast.Not(condition(rng, depth - 1))
    if kind < 0.55:
        return ast.Compare(order, compound(rng, depth), compound(rng, depth))
    if kind < 0.65:
        return ast.Missing(rng.choice([ast.Ref(name), date_trunc(rng), compound(rng, depth)]))
    if kind < 0.7:
        return ast.Like(ast.Ref("dept"), rng.choice(PATTERNS))
    if kind < 0.73:
        return ast.Compare(order, date_trunc(rng), constant(rng, "day", Kind.DATE))
    if kind < 0.76:
        return ast.OneOf(date_trunc(rng), tuple(constant(rng, "day", Kind.DATE) for _ in range(rng.choice([1, 3]))))
    if kind < 0.79:
        found = ast.Plus(compound(rng, 0), date_part(rng)) if rng.random() < 0.5 else date_part(rng)
        return ast.OneOf(found, tuple(ast.Number(rng.choice([*NUMBERS, Fraction(2024)])) for _ in range(rng.choice([1, 4]))))
    if kind < 0.87:
        return ast.OneOf(ast.Ref(name), tuple(constant(rng, name, KINDS[name]) for _ in range(rng.choice([1, 2, 4]))))
    return ast.Compare(order, ast.Ref(name), constant(rng, name, KINDS[name]))


def aggregate(rng: Random) -> ast.Aggregate:
    kind = rng.randrange(11)
    if kind == 10:
        make = aggregates.Covariance if rng.random() < 0.5 else aggregates.Correlation
        return make(value(rng, 1), value(rng, 1))
    if kind == 9:
        found = grouping(rng, 0).value
        return aggregates.CountUnits() if found == ast.Ref("uid") else aggregates.CountDistinct(found)
    if kind == 7:
        return aggregates.Quantile(
            value(rng), rng.choice([Fraction(1, 2), Fraction(1, 100), Fraction(9, 10), Fraction(7, 20)])
        )
    if kind == 8:
        edges = sorted(rng.sample([Fraction(n, 4) for n in (-40, -1, 0, 1, 2, 30, 100, 4000)], rng.choice([2, 3, 6])))
        return aggregates.Histogram(ast.Ref(rng.choice(NUMERIC[:-1])) if rng.random() < 0.6 else value(rng), tuple(edges))
    if kind == 0:
        return aggregates.CountRows()
    if kind == 1:
        return aggregates.CountUnits()
    if kind == 2:
        return aggregates.CountValues(ast.Ref(rng.choice(list(KINDS))) if rng.random() < 0.5 else value(rng))
    if kind == 3:
        return aggregates.Sum(value(rng))
    return aggregates.Mean(value(rng)) if kind == 4 else aggregates.Variance(value(rng, 1), root=kind == 5)


def grouping(rng: Random, i: int) -> ast.Grouping:
    kind, number = rng.random(), ast.Ref(rng.choice(["age", "pay", "huge"]))
    if kind < 0.2:
        return ast.Grouping(f"k{i}", ast.Bin(number, rng.choice([1, 3, 10, 100000])))
    if kind < 0.45:
        return ast.Grouping(f"k{i}", rng.choice([date_part(rng), date_trunc(rng), rounded(rng, number, [-2, -1, 0])]))
    return ast.Grouping(f"k{i}", ast.Ref(rng.choice(KEYED)))


def random_query(rng: Random) -> ast.Query:
    """A query of one to three aggregates, with or without a condition and groups."""
    groups = {g.value: g for g in (grouping(rng, i) for i in range(rng.choice([0, 1, 1, 2])))}
    return ast.Query(
        "people",
        tuple((f"a{i}", aggregate(rng)) for i in range(rng.choice([1, 2, 3]))),
        condition(rng) if rng.random() < 0.6 else None,
        tuple(groups.values()),
    )


def bounded(rng: Random, place: World, neighbours: Neighbours = Neighbours.ADD_REMOVE) -> tuple[BoundedQuery, int]:
    """A query of this table that is not refused, and how many were refused on the way."""
    refused = 0
    while True:
        try:
            return bound_contributions(random_query(rng), place.table, neighbours), refused
        except QueryRefused:
            refused += 1


# -- as text ---------------------------------------------------------------------------------------------------------------


def decimal(number: Fraction) -> str:
    return str(Decimal(number.numerator) / Decimal(number.denominator))


def written(node: Any) -> str:
    """The SQL text of a part of a query."""
    match node:
        case ast.Ref(column=name):
            return f'"{name}"' if name in ("at", "day") else name
        case ast.Number(value=number):
            return decimal(number)
        case ast.Plus() | ast.Minus() | ast.Times():
            sign = {ast.Plus: "+", ast.Minus: "-", ast.Times: "*"}[type(node)]
            return f"({written(node.left)} {sign} {written(node.right)})"
        case ast.Bin(value=inner, width=width):
            return f"({written(inner)} // {width})"
        case ast.Case(branches=branches, default=default):
            whens = " ".join(f"WHEN {written(c)} THEN {written(v)}" for c, v in branches)
            return f"CASE {whens}{'' if default is None else f' ELSE {written(default)}'} END"
        case ast.Divide(value=inner, divisor=divisor):
            return f"({written(inner)} / {decimal(divisor)})"
        case ast.Round(value=inner, rounding=rounding, digits=digits):
            return f"{rounding.value}({written(inner)}{f', {digits}' if digits else ''})"
        case ast.Abs(value=inner):
            return f"ABS({written(inner)})"
        case ast.Coalesce(values=values):
            return f"COALESCE({', '.join(map(written, values))})"
        case ast.Extreme(values=values, greatest=greatest):
            return f"{'GREATEST' if greatest else 'LEAST'}({', '.join(map(written, values))})"
        case ast.NullIf(value=inner, other=other):
            return f"NULLIF({written(inner)}, {written(other)})"
        case ast.DatePart(part=part, column=ref):
            return f"{part.name}({written(ref)})"
        case ast.DateTrunc(period=period, column=ref):
            return f"DATE_TRUNC('{period.value}', {written(ref)})"
        case ast.Like(value=ref, pattern=pattern):
            return f"{written(ref)} LIKE {written(ast.Constant(pattern))}"
        case ast.Constant(value=bool() as flag):
            return str(flag).upper()
        case ast.Constant(value=constant):
            return "'" + str(constant).replace("'", "''") + "'"
        case ast.Compare(order=order, left=left, right=right):
            return f"{written(left)} {order.value} {written(right)}"
        case ast.OneOf(value=ref, among=among):
            return f"{written(ref)} IN ({', '.join(map(written, among))})"
        case ast.Missing(value=ref):
            return f"{written(ref)} IS NULL"
        case ast.All(parts=parts):
            return "(" + " AND ".join(map(written, parts)) + ")"
        case ast.Any(parts=parts):
            return "(" + " OR ".join(map(written, parts)) + ")"
        case ast.Not(part=part):
            return f"NOT ({written(part)})"
        case aggregates.CountRows():
            return "COUNT(*)"
        case aggregates.CountUnits():
            return "COUNT(DISTINCT uid)"
        case aggregates.CountDistinct(value=inner):
            return f"COUNT(DISTINCT {written(inner)})"
        case aggregates.Variance(value=inner, root=root):
            return f"{'STDDEV' if root else 'VARIANCE'}({written(inner)})"
        case aggregates.Covariance(left=left, right=right):
            return f"COVAR_POP({written(left)}, {written(right)})"
        case aggregates.Correlation(left=left, right=right):
            return f"CORR({written(left)}, {written(right)})"
        case aggregates.Quantile(value=inner, q=q):
            return f"QUANTILE({written(inner)}, {decimal(q)})"
        case aggregates.Histogram(value=inner, edges=edges):
            return f"HISTOGRAM({written(inner)}, {', '.join(map(decimal, edges))})"
    names = {aggregates.CountValues: "COUNT", aggregates.Sum: "SUM", aggregates.Mean: "AVG"}
    return f"{names[type(node)]}({written(node.value)})"


def text(query: ast.Query) -> str:
    """The whole query as SQL."""
    items = [f"{written(g.value)} AS {g.name}" for g in query.groups] + [f"{written(a)} AS {n}" for n, a in query.aggregates]
    where = "" if query.where is None else f" WHERE {written(query.where)}"
    group = f" GROUP BY {', '.join(written(g.value) for g in query.groups)}" if query.groups else ""
    return f"SELECT {', '.join(items)} FROM people{where}{group}"


# -- in the engine ---------------------------------------------------------------------------------------------------------


def stored(place: World, connection: duckdb.DuckDBPyConnection, name: str = "people") -> DuckDB:
    """The rows as a table of DuckDB."""
    columns = ", ".join(f'"{column}" {kind}' for column, kind in place.types.items())
    connection.execute(f'CREATE OR REPLACE TABLE "{name}" ({columns})')
    if place.rows:
        marks = ", ".join("(" + ", ".join("?" * len(place.types)) + ")" for _ in place.rows)
        connection.execute(
            f'INSERT INTO "{name}" VALUES {marks}', [row[column] for row in place.rows for column in place.types]
        )
    return DuckDB(connection, name)


Moved = dict[Statistic, dict[tuple[Any, ...], Any]]
"""Per statistic, what is not zero: by key, and for cell counts by key and cell."""
Answering = Callable[[BoundedQuery, World], Moved]


def by_duckdb(connection: duckdb.DuckDBPyConnection) -> Answering:
    """The engine's exact integers. A group that the engine does not return is all zeros."""

    last: list[tuple[World, DuckDB]] = []

    def answer(question: BoundedQuery, place: World) -> Moved:
        if not last or last[0][0] is not place:
            last[:] = [(place, stored(place, connection))]
        return exactly(last[0][1], question)

    return answer


def exactly(engine: Engine, question: BoundedQuery) -> Moved:
    """What an engine returns for a query, per statistic."""
    totals = list(engine.read_totals(question))
    found: Moved = {m: {keys: row[i] for row, keys in totals if row[i]} for i, m in enumerate(question.totals)}
    return found | {
        c: {(*keys, cell): n for n, cell, keys in engine.read_histogram(question, c) if n} for c in question.cell_counts
    }


def compare_totals(answer: Answering, seeds: range, each: int) -> int:
    """Assert that the exact integers of random queries equal those of the oracle; return how many queries there were."""
    compared = 0
    for seed in seeds:
        rng = Random(seed)
        place = world(rng)
        for _ in range(each):
            query, _ = bounded(rng, place)
            assert answer(query, place) == reference(query, place.rows), (seed, text(query.query))
            compared += 1
    return compared
