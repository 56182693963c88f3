# ruff: noqa: E501
"""Every function of a value, on values that are hard on engines: each row's own result is compared with the oracle's.

The queries group by the privacy unit, and every unit has one row, so that no total can hide a wrong value behind another.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime
from math import inf, nan, nextafter
from typing import Any

from discreet.engines.base import Engine
from discreet.query import ast
from discreet.query.contribution import BoundedQuery, bound_contributions
from discreet.query.parser import parse_sql
from discreet.query.schema import Column, Kind, Table
from discreet.query.statistics import CentredSum
from discreet.units import Neighbours
from tests.support.engine_sessions import read_totals
from tests.support.oracle import Oracle, reference
from tests.support.random_tables import PATTERNS, World, exactly

TYPES = {
    "uid": "BIGINT", "age": "INTEGER", "wide": "BIGINT", "pay": "DOUBLE", "fine": "DOUBLE", "ok": "BOOLEAN", "dept": "VARCHAR",
    "day": "DATE", "at": "TIMESTAMP",
}  # fmt: skip
TABLE = Table(
    "people",
    "uid",
    {
        "uid": Column(Kind.INTEGER),
        "age": Column(Kind.INTEGER).with_bounds(-17, 101),
        "wide": Column(Kind.INTEGER).with_bounds(-(2**35), 2**35),
        "pay": Column(Kind.REAL).with_bounds(-100, 100),
        "fine": Column(Kind.REAL).with_bounds(-1, 1),
        "ok": Column(Kind.BOOLEAN),
        "dept": Column(Kind.TEXT),
        "day": Column(Kind.DATE),
        "at": Column(Kind.TIMESTAMP),
    },
    max_groups=1,
    max_rows=1,
)
BOUNDED = replace(
    TABLE,
    columns={
        **TABLE.columns,
        "day": Column(Kind.DATE).with_bounds("2023-11-20", "2024-02-29"),
        "at": Column(Kind.TIMESTAMP).with_bounds("2024-02-01", "2024-02-29T12:00:00"),
    },
)
"""The same table with bounds of its dates: most of them are clipped."""

AGES = [None, 0, 1, -1, 2, 3, -3, 5, -5, 6, 7, 15, 25, -15, 45, 50, 100, 101, 102, -17, -18, 2**31 - 1, -(2**31)]
WIDES = [None, 0, 7, -7, 2**40, -(2**40), 2**62, -(2**63), 2**63 - 1, -999, 10**12 + 5, -(10**12) - 5, 3, -3]
HALF = nextafter(0.5, 0)
PAYS = [
    None,
    nan,
    inf,
    -inf,
    0.0,
    -0.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    HALF,
    -HALF,
    0.05,
    0.15,
    0.25,
    1.005,
    99.95,
    5e-324,
    1e300,
    12.345,
]
TEXTS = [
    *(
        None,
        "",
        "a",
        "A",
        "b",
        "ab",
        "a\nb",
        "\n",
        "\r\n",
        "a\n",
        "ÅÄö",
        "日本",
        "😀",
        "😀😀",
        "a😀b",
        "e\u0301",
        "é",
        "'; --",
        '"',
    ),
    *(
        "%",
        "_",
        "a%b",
        "a_b",
        "[a-z]",
        "(x",
        "*",
        ".",
        "a.b",
        "$1",
        "^a",
        "DE",
        "xDyEz",
        "EDED",
        " a",
        "a ",
        "\t",
        "\u2028a",
        "aa",
    ),
]
DAYS = [
    *(None, date(1, 1, 1), date(1, 1, 7), date(4, 2, 29), date(1582, 10, 4), date(1582, 10, 15), date(1899, 12, 31)),
    *(date(1900, 2, 28), date(1969, 12, 31), date(1970, 1, 1), date(2000, 2, 29), date(2023, 12, 31), date(2024, 1, 1)),
    *(date(2024, 2, 29), date(2024, 3, 31), date(2024, 4, 1), date(2024, 12, 29), date(2024, 12, 30), date(9999, 12, 31)),
]
TIMES = [
    *(None, datetime.min, datetime.max, datetime(1, 1, 1, 0, 0, 0, 1), datetime(1969, 12, 31, 23, 59, 59, 999_999)),
    *(datetime(2024, 2, 29, 23, 59, 59, 999_999), datetime(2024, 3, 10, 2, 30), datetime(2024, 3, 31, 2, 30)),
    *(datetime(2024, 11, 3, 1, 30), datetime(1582, 10, 10), datetime(1883, 11, 18, 12, 3, 58), datetime(2024, 12, 31, 12)),
]
SIZE = max(map(len, (AGES, WIDES, PAYS, TEXTS, DAYS, TIMES)))


def _rows() -> tuple[dict[str, Any], ...]:
    """One row per unit. Each column repeats its values, and every text stands beside a NULL of each other column."""
    cells = {
        "age": AGES,
        "wide": WIDES,
        "pay": PAYS,
        "fine": PAYS,
        "dept": TEXTS,
        "day": DAYS,
        "at": TIMES,
        "ok": [None, True, False],
    }
    rows = [{"uid": i} | {name: held[i % len(held)] for name, held in cells.items()} for i in range(SIZE)]
    rows += [{"uid": SIZE + i} | {name: held[(i + 7) % len(held)] for name, held in cells.items()} for i in range(SIZE)]
    return tuple(rows)


ROWS = _rows()

VALUES = [
    *("age / 2", "age / 4", "age / 3", "age / 12", "age / -7", "age / 0.1", "pay / 0.37", "pay / -3", "wide / 1000", "wide / 7"),
    *("fine / 1000000", "ok / 3", "ROUND(pay)", "ROUND(pay, 0)", "ROUND(pay, 1)", "ROUND(pay, 2)", "ROUND(pay, -1)"),
    *("ROUND(age, -1)", "ROUND(age, 2)", "ROUND(wide, -3)", "ROUND(fine, 3)", "ROUND(age / 2)", "ROUND(-pay)", "ROUND(wide / 7, 1)"),
    *("FLOOR(pay)", "FLOOR(age)", "FLOOR(age / 3)", "FLOOR(-fine)", "CEIL(pay)", "CEILING(fine)", "CEIL(age / -3)", "CEIL(wide)"),
    *("ABS(age)", "ABS(pay)", "ABS(wide)", "ABS(age - pay)", "-pay", "-(-age)", "ABS(-wide)"),
    *("COALESCE(age, 0)", "COALESCE(pay, age)", "COALESCE(pay, fine, age, 0.5)", "IFNULL(pay, -1)", "NVL(ok, 0)", "COALESCE(7, pay)"),
    *("COALESCE(pay)", "COALESCE(COALESCE(age, pay), 1)", "COALESCE(CASE WHEN ok THEN pay END, wide)"),
    *("GREATEST(age, 3)", "LEAST(age, 60)", "GREATEST(age, pay)", "LEAST(pay, fine, age)", "GREATEST(pay, NULLIF(age, 0), 0)"),
    *("GREATEST(age)", "LEAST(ok, pay)", "GREATEST(-5, LEAST(5, pay))", "LEAST(fine, 0.1)"),
    *("NULLIF(age, 0)", "NULLIF(wide, -999)", "NULLIF(age, -18)", "NULLIF(pay, 0)", "NULLIF(pay, 2.5)", "NULLIF(age, wide)"),
    *("NULLIF(age + 1, 1)", "NULLIF(3, age)", "NULLIF(pay, fine)", "NULLIF(NULLIF(age, 0), 1)", "NULLIF(ok, 1)", "NULLIF(ok, -1)", "NULLIF(age + 1, -1)", "NULLIF(pay, -2.5)", "NULLIF(age, 0.5)"),
    *("CASE WHEN pay IN (0.5, 1.5) THEN 1 ELSE 0 END", "CASE WHEN age + 1 IN (1, 2, 0.5) THEN 1 ELSE 0 END"),
    *("CASE WHEN age + pay IS NULL THEN 1 ELSE 0 END", "CASE WHEN NULLIF(age, 0) IS NOT NULL THEN 1 ELSE 2 END"),
    *("CASE WHEN ROUND(pay) BETWEEN 0 AND 2 THEN 1 ELSE 0 END", "CASE WHEN ABS(age) NOT IN (1, 2) THEN 1 END"),
]  # fmt: skip
DATES = [
    *(f"{part}({column})" for part in ("YEAR", "QUARTER", "MONTH", "DAY", "ISODOW") for column in ("day", "at")),
    *(
        "HOUR(at)",
        "EXTRACT(year FROM day)",
        "EXTRACT('month' FROM at)",
        "DATE_PART('quarter', day)",
        "EXTRACT(HOUR FROM at)",
    ),
    *("YEAR(at) * 12 + MONTH(at)", "YEAR(day) // 10", "ABS(YEAR(day) - 2024)", "COALESCE(MONTH(day), 0)"),
    *("CASE WHEN YEAR(day) = 2024 THEN 1 ELSE 0 END", "CASE WHEN YEAR(day) IN (1, 1970, 9999) THEN 1 ELSE 0 END"),
    *(
        "CASE WHEN day >= DATE '2024-01-01' THEN 1 ELSE 0 END",
        "CASE WHEN at < TIMESTAMP '2024-02-29 23:59:59.999999' THEN 1 END",
    ),
    *(
        "CASE WHEN at >= DATE '2024-02-29' THEN 1 ELSE 0 END",
        "CASE WHEN day BETWEEN '1582-10-05' AND DATE '1970-01-01' THEN 1 END",
    ),
    *(f"CASE WHEN DATE_TRUNC('{period.value}', day) = DATE '2024-01-01' THEN 1 ELSE 0 END" for period in ast.Period),
    *("CASE WHEN DATE_TRUNC('week', at) <> '2024-02-26' THEN 1 END", "CASE WHEN DATE_TRUNC('month', at) IS NULL THEN 1 END"),
    *("CASE WHEN DATE '2024-01-01' > DATE_TRUNC('day', at) THEN 1 END",),
    *("CASE WHEN DATE_TRUNC('year', day) IN ('2024-01-01', DATE '0001-01-01') THEN 1 END",),
]
HOSTILE_PATTERNS = [
    *PATTERNS, "a%b", "%😀", "_😀_", "😀_", "é", "_", "\u2028%", "%\r\n", " %", "% ", "%%", "%_%", "a\nb", "a_b", "_\n_", "%D%", "D%E",
    "%;%", "'", "''", '"', "%{}%", "%s", "${a}", "`", "/*%", "?", ":a", "\t",
]  # fmt: skip
CONDITIONS = [
    *(f"dept LIKE '{pattern.replace(chr(39), 2 * chr(39))}'" for pattern in dict.fromkeys(HOSTILE_PATTERNS)),
    *("dept NOT LIKE 'a%'", "NOT dept LIKE '%a'", "NOT dept NOT LIKE '_'", "(dept) LIKE ('a_')"),
]
KEYS = [
    *(
        "YEAR(day)",
        "MONTH(at)",
        "QUARTER(day)",
        "ISODOW(day)",
        "HOUR(at)",
        "DAY(day)",
        "FLOOR(pay)",
        "ROUND(age, -1)",
        "CEIL(fine)",
    ),
    *(f"DATE_TRUNC('{period.value}', {column})" for period in ast.Period for column in ("day", "at")),
]

QUERIES: dict[str, tuple[str, Table]] = {
    "values": (f"SELECT uid, {', '.join(f'SUM({each}) AS s{i}' for i, each in enumerate(VALUES))}", TABLE),
    "dates": (f"SELECT uid, {', '.join(f'SUM({each}) AS s{i}' for i, each in enumerate(DATES))}", TABLE),
    "dates with bounds": (f"SELECT uid, {', '.join(f'SUM({each}) AS s{i}' for i, each in enumerate(DATES))}", BOUNDED),
    "patterns": (
        f"SELECT uid, {', '.join(f'SUM(CASE WHEN {each} THEN 1 ELSE 2 END) AS s{i}' for i, each in enumerate(CONDITIONS))}",
        TABLE,
    ),
}


def _bound(text: str, table: Table) -> BoundedQuery:
    return bound_contributions(parse_sql(text, table), table, Neighbours.ADD_REMOVE)


def find_wrong_values(
    open_world: Callable[[World], Engine], oracle: type[Oracle] = Oracle, kinds: tuple[str, ...] = tuple(QUERIES)
) -> list[str]:
    """Return the expressions whose value differs from the oracle's on some row."""
    engine, wrong = open_world(World(TABLE, ROWS, TYPES)), []
    for name in kinds:
        text, table = QUERIES[name]
        query = _bound(f"{text} FROM people GROUP BY uid", table)
        found, expected = exactly(engine, query), reference(query, ROWS, oracle)
        for statistic, values in expected.items():
            if found[statistic] != values and isinstance(statistic, CentredSum):
                wrong.append(ast.format_value(statistic.value))
            assert isinstance(statistic, CentredSum) or found[statistic] == values
    return wrong


def find_wrong_keys(open_world: Callable[[World], Engine], keys: list[str] | None = None) -> list[str]:
    """Return the groupings whose counts differ from the oracle's, with keys that are enumerated and with keys that are not."""
    wrong = []
    for table in (TABLE, BOUNDED):
        engine = open_world(World(table, ROWS, TYPES))
        for key in KEYS if keys is None else keys:
            query = _bound(f"SELECT {key} AS k, COUNT(*) AS n FROM people GROUP BY {key}", table)
            if exactly(engine, query) != reference(query, ROWS):
                wrong.append(key)
    return wrong


# -- dates that Python cannot hold -----------------------------------------------------------------------------------------

EXTREMES = {
    "duckdb": {
        1: ("5881580-07-10", "294247-01-10 04:00:54.775806"),
        2: ("5877642-06-25 (BC)", "290309-12-22 (BC) 00:00:00"),
        3: ("10000-01-01", "10000-01-01 00:00:00"),
        4: ("0044-03-15 (BC)", "0044-03-15 (BC) 12:00:00"),
        5: ("infinity", "infinity"),
        6: ("-infinity", "-infinity"),
    },
    "postgres": {
        1: ("5874897-12-31", "294276-12-31 23:59:59.999999"),
        2: ("4713-01-01 BC", "4713-01-01 00:00:00 BC"),
        3: ("10000-01-01", "10000-01-01 00:00:00"),
        4: ("0044-03-15 BC", "0044-03-15 12:00:00 BC"),
        5: ("infinity", "infinity"),
        6: ("-infinity", "-infinity"),
    },
    "spark": {
        1: ("+5881580-07-11", "+294247-01-10 04:00:54.775807"),
        2: ("-5877641-06-23", "-290308-12-21 19:59:05.224192"),
        3: ("+10000-01-01", "+10000-01-01 00:00:00"),
        4: ("-0044-03-15", "-0044-03-15 12:00:00"),
    },
}
"""The last and the first date and time that an engine can hold, some beyond the years 1 to 9999, and infinite ones. Units with
an odd number are later than all that Python can hold, others earlier; from 5 on they are infinite."""

EXTREME_PARTS = (
    "SELECT uid, SUM(YEAR(day)) AS a, SUM(MONTH(day)) AS b, SUM(DAY(day)) AS c, SUM(ISODOW(day)) AS d, SUM(QUARTER(at)) AS e, "
    "SUM(YEAR(at)) AS f, SUM(HOUR(at)) AS g, COUNT(YEAR(day)) AS h, COUNT(HOUR(at)) AS i, "
    "SUM(CASE WHEN DATE_TRUNC('week', day) IS NULL THEN 1 ELSE 0 END) AS j FROM people GROUP BY uid"
)


def _read_sums(engine: Engine, text: str, **declared: Any) -> dict[Any, Any]:
    """The totals by key, without the distinct units by which keys are selected."""
    return {keys: totals[:-1] for keys, totals in read_totals(engine, text, **declared).items()}


def find_wrong_extremes(engine: Engine) -> list[str]:
    """Return what is wrong about dates that Python cannot hold, in a table `people` with the rows of `EXTREMES`."""
    last, first = (9999, 12, 31, 5, 4, 9999, 23, 1, 1, 0), (1, 1, 1, 1, 1, 1, 0, 1, 1, 0)
    infinite, wrong = (0, 0, 0, 0, 0, 0, 0, 0, 0, 1), []
    units = EXTREMES[engine.dialect.name]  # type: ignore[attr-defined]
    expected = {(uid,): infinite if uid > 4 else last if uid % 2 else first for uid in units}
    if _read_sums(engine, EXTREME_PARTS) != expected:
        wrong.append("parts")
    bounds = {"day": ("2024-02-01", "2024-03-05"), "at": ("2024-02-01", "2024-03-05T07:00:00")}
    clipped = {1: (2024, 3, 5, 2, 1, 2024, 7, 1, 1, 0), 0: (2024, 2, 1, 4, 1, 2024, 0, 1, 1, 0)}
    expected = {(uid,): infinite if uid > 4 else clipped[uid % 2] for uid in units}
    if _read_sums(engine, EXTREME_PARTS, bounds=bounds) != expected:
        wrong.append("clipped parts")
    ends = {"day": ("9999-12-31", "0001-01-01"), "week": ("9999-12-27", "0001-01-01"), "month": ("9999-12-01", "0001-01-01")}
    ends |= {"quarter": ("9999-10-01", "0001-01-01"), "year": ("9999-01-01", "0001-01-01")}
    for period, (late, early) in ends.items():
        for column in ("day", "at"):
            text = f"DATE_TRUNC('{period}', {column})"
            found = _read_sums(engine, f"SELECT {text} AS k, COUNT(*) AS n FROM people GROUP BY {text}")
            counts = {(date.fromisoformat(late),): (2,), (date.fromisoformat(early),): (2,)}
            if found != counts | ({(None,): (2,)} if len(units) > 4 else {}):
                wrong.append(text)
    return wrong
