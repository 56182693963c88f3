"""A generated table of invented people, the same every time: there is nobody in it."""

import duckdb

ROWS, PEOPLE = 200_000, 60_000
REGIONS = ("north", "east", "south", "west", "islands")

_TABLE = f"""
CREATE TABLE visits AS
SELECT
    (hash(i) % 1000003 * (hash(i + 7) % 1000003) / 1000006000009.0 * {PEOPLE})::BIGINT AS person,
    CASE
        WHEN hash(i * 3 + 1) % 100 < 34 THEN 'north'
        WHEN hash(i * 3 + 1) % 100 < 61 THEN 'east'
        WHEN hash(i * 3 + 1) % 100 < 83 THEN 'south'
        WHEN hash(i * 3 + 1) % 100 < 98 THEN 'west'
        ELSE 'islands'
    END AS region,
    (20 + hash(i * 5 + 2) % 60 + hash(i * 11 + 3) % 60)::DOUBLE AS paid
FROM range({ROWS}) t(i)
"""


def make_visits() -> duckdb.DuckDBPyConnection:
    """200,000 visits of some ten thousands of people, who come once or often."""
    connection = duckdb.connect()
    connection.execute(_TABLE)
    return connection
