-- SELECT dept, age // 10 AS decade, COUNT(*) AS n FROM people GROUP BY CUBE(dept, age // 10)
WITH kept AS (
  SELECT
    "listed"."unit",
    CASE
      WHEN "listed"."key0" IS NULL
      THEN 2
      WHEN "listed"."key0" = 'a'
      THEN 0
      WHEN "listed"."key0" = 'b''s'
      THEN 1
    END AS "key0",
    CASE
      WHEN "listed"."key1" >= 0 AND "listed"."key1" <= 12
      THEN CAST(CAST("listed"."key1" AS BIGINT) - 0 AS INT)
    END AS "key1"
  FROM (
    SELECT
      "source"."uid" AS "unit",
      "source"."dept" AS "key0",
      (
        (
          CASE
            WHEN "source"."age" IS NULL
            THEN NULL
            ELSE CAST(LEAST(GREATEST("source"."age", 0), 120) AS BIGINT)
          END * 1 - 0
        ) / 10 + 0
      ) AS "key1"
    FROM (
      SELECT
        CAST("uid" AS TEXT) COLLATE "C" AS "uid",
        CAST("dept" AS TEXT) COLLATE "C" AS "dept",
        "city",
        "age",
        "pay",
        CASE
          WHEN "price" = CAST('NaN' AS DECIMAL)
          THEN CAST('NaN' AS DOUBLE PRECISION)
          WHEN "price" > CAST('1.7976931348623157e308' AS DECIMAL)
          THEN CAST('Infinity' AS DOUBLE PRECISION)
          WHEN "price" < CAST('-1.7976931348623157e308' AS DECIMAL)
          THEN CAST('-Infinity' AS DOUBLE PRECISION)
          WHEN ABS("price") < CAST('5e-324' AS DECIMAL)
          THEN CAST('0' AS DOUBLE PRECISION)
          ELSE CAST("price" AS DOUBLE PRECISION)
        END AS "price",
        CASE WHEN "points" = CAST('NaN' AS DECIMAL) THEN NULL ELSE "points" END AS "points",
        "ok",
        "day",
        "at" AT TIME ZONE 'UTC' AS "at"
      FROM "people"
    ) AS "source"
    WHERE
      NOT "source"."uid" IS NULL
  ) AS listed
  WHERE
    (
      "listed"."key0" IN ('a', 'b''s') OR "listed"."key0" IS NULL
    )
    AND (
      (
        "listed"."key1" >= 0 AND "listed"."key1" <= 12
      )
    )
), pairs AS (
  SELECT
    "unit",
    "key0",
    "key1",
    COUNT(*) AS "rows"
  FROM kept
  GROUP BY
    "unit",
    "key0",
    "key1"
), ranked AS (
  SELECT
    *,
    ROW_NUMBER() OVER (
      PARTITION BY "unit"
      ORDER BY MD5(
        '8:discreet' || CAST(LENGTH(CAST("unit" AS VARCHAR)) AS VARCHAR) || ':' || CAST("unit" AS VARCHAR) || CASE
          WHEN "key0" IS NULL
          THEN '-'
          ELSE CAST(LENGTH(CAST("key0" AS VARCHAR)) AS VARCHAR) || ':' || CAST("key0" AS VARCHAR)
        END || CASE
          WHEN "key1" IS NULL
          THEN '-'
          ELSE CAST(LENGTH(CAST("key1" AS VARCHAR)) AS VARCHAR) || ':' || CAST("key1" AS VARCHAR)
        END
      ) COLLATE "C", "key0", "key1"
    ) AS "rank"
  FROM pairs
)
SELECT
  CAST(LEAST(
    GREATEST(COALESCE(SUM(LEAST("rows", 10)), 0), (
      -9223372036854775807
    )),
    9223372036854775807
  ) AS BIGINT) AS "total0",
  "key0",
  "key1"
FROM ranked
WHERE
  "rank" <= 3
GROUP BY
  "key0",
  "key1"
ORDER BY
  "key0";
