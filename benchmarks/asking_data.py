"""Invented purchases as Parquet, the same on every machine: every column is a function of the row number through md5.

Users are Zipf (the first has one row in twenty or so, most have one), 50 departments and 5,000 cities too are uneven,
amounts are log-normal. Kept under benchmarks/.data.
"""

from pathlib import Path

import duckdb

HOME = Path(__file__).parent / ".data"
DEPARTMENTS = tuple(f"d{i:02d}" for i in range(50))
AMOUNTS = (0, 500)  # declared bounds; about one amount in a thousand lies above

ROWS = """
WITH bits AS (
    SELECT i, md5_number_lower('a' || i) AS a, md5_number_upper('a' || i) AS b, md5_number_lower('b' || i) AS c
    FROM range({rows}) t(i)
), uniform AS (
    SELECT i, ((a & 4294967295) + 0.5) / 4294967296 AS u, ((a >> 32) + 0.5) / 4294967296 AS d,
           ((b & 4294967295) + 0.5) / 4294967296 AS t, ((b >> 32) + 0.5) / 4294967296 AS x,
           ((c & 4294967295) + 0.5) / 4294967296 AS y
    FROM bits
)
SELECT {user} AS "user",
       printf('d%02d', floor(50 * d * sqrt(d))::BIGINT) AS dept,
       printf('city-%04d', floor(exp(t * ln(5000)))::BIGINT - 1) AS city,
       exp(3 + sqrt(-2 * ln(x)) * cos(2 * pi() * y)) AS amount
FROM uniform
"""
ZIPF = "floor(exp(u * ln({users})))::BIGINT"
KEYS = "SELECT i AS \"user\", 'key-' || (i // 3) AS key FROM range({rows}) t(i)"


def purchases(rows: int, *, unique: bool = False) -> Path:
    """A file of `rows` purchases: a tenth as many users, or one for every row."""
    user = "i" if unique else ZIPF.format(users=rows // 10)
    return made(f"{'unique' if unique else 'zipf'}-{rows}", ROWS.format(rows=rows, user=user))


def many_keys(keys: int) -> Path:
    """Three users in each of `keys` groups: every one of them has to pass through selection."""
    return made(f"keys-{keys}", KEYS.format(rows=3 * keys))


def first(rows: int, kind: str) -> Path:
    """The first rows of a purchase file."""
    return made(f"first-{rows}", f"FROM '{purchases(10**6)}' LIMIT {rows}", kind)


def made(name: str, query: str, kind: str = "parquet") -> Path:
    """The file, written on first use."""
    path = HOME / f"{name}.{kind}"
    if not path.exists():
        HOME.mkdir(exist_ok=True)
        part = path.with_suffix(".part")
        with duckdb.connect() as connection:
            connection.execute("SET enable_progress_bar = false")
            connection.execute(f"COPY ({query}) TO '{part}' (FORMAT {kind})")
        part.rename(path)
    return path
