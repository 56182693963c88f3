"""What asking is measured against: the plain query, and the best bounded query without noise, word for word.

Bounded is the two-level form: first one row per (unit, group), then a unit's groups in the order of a hash, the first three
kept, each capped at ten rows. Two ORDER BY keys, since with one the engine chooses a slower plan.
"""

BY_DEPARTMENT = "SELECT dept, COUNT(*) AS n FROM t GROUP BY dept"
SUMS = "SELECT dept, SUM(amount) AS total, AVG(amount) AS mean FROM t GROUP BY dept"
BY_CITY = "SELECT city, COUNT(*) AS n FROM t GROUP BY city"

BOUNDED_COUNT = """
WITH pairs AS (SELECT "user" AS unit, {key} AS key, COUNT(*) AS n FROM t GROUP BY 1, 2),
ranked AS (
    SELECT *, row_number() OVER (PARTITION BY unit ORDER BY md5('discreet|' || unit || '|' || key), key) AS rank FROM pairs
)
SELECT key, SUM(LEAST(n, 10)) FROM ranked WHERE rank <= 3 GROUP BY key
"""

BOUNDED_SUMS = """
WITH pairs AS (
    SELECT "user" AS unit, dept AS key, COUNT(amount) AS n,
           SUM(CAST(FLOOR(LEAST(GREATEST(amount, 0), 500) * 4096 + 0.5) AS BIGINT)) AS s
    FROM t GROUP BY 1, 2
),
ranked AS (
    SELECT *, row_number() OVER (PARTITION BY unit ORDER BY md5('discreet|' || unit || '|' || key), key) AS rank FROM pairs
)
SELECT key, SUM(CASE WHEN n > 10 THEN {share} ELSE s END){more} FROM ranked WHERE rank <= 3 GROUP BY key
"""

PLAIN = {"count": BY_DEPARTMENT, "sums": SUMS, "city": BY_CITY, "unique": BY_DEPARTMENT}
BOUNDED = {
    "count": BOUNDED_COUNT.format(key="dept"),
    "sums": BOUNDED_SUMS.format(share="s * 10 // n", more=", SUM(LEAST(n, 10))"),
    "city": BOUNDED_COUNT.format(key="city"),
}
