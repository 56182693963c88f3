-- SELECT dept, city, day, ok, COUNT(*) AS n FROM people WHERE age > 1 GROUP BY dept, city, day, ok
WITH kept AS (
  SELECT
    "source"."uid" AS "unit",
    "source"."dept" AS "key0",
    "source"."city" AS "key1",
    CASE
      WHEN "source"."day" BETWEEN CAST('0001-01-01' AS DATE) AND CAST('9999-12-31' AS DATE)
      THEN "source"."day"
    END AS "key2",
    "source"."ok" AS "key3"
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
    (
      NOT "source"."uid" IS NULL AND (
        "source"."age" > 1
      )
    )
    AND (
      "source"."dept" IN ('a', 'b''s') OR "source"."dept" IS NULL
    )
    AND (
      "source"."ok" IN (FALSE, TRUE)
    )
), pairs AS (
  SELECT
    "unit",
    "key0",
    "key1",
    "key2",
    "key3",
    COUNT(*) AS "rows"
  FROM kept
  GROUP BY
    "unit",
    "key0",
    "key1",
    "key2",
    "key3"
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
        END || CASE
          WHEN "key2" IS NULL
          THEN '-'
          ELSE CAST(LENGTH(CAST("key2" AS VARCHAR)) AS VARCHAR) || ':' || CAST("key2" AS VARCHAR)
        END || CASE
          WHEN "key3" IS NULL
          THEN '-'
          ELSE CAST(LENGTH(CAST("key3" AS VARCHAR)) AS VARCHAR) || ':' || CAST("key3" AS VARCHAR)
        END
      ) COLLATE "C", "key0", "key1", "key2", "key3"
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
  CAST(LEAST(GREATEST(COALESCE(SUM(1), 0), (
    -9223372036854775807
  )), 9223372036854775807) AS BIGINT) AS "total1",
  "key0",
  "key1",
  "key2",
  "key3"
FROM ranked
WHERE
  "rank" <= 3
GROUP BY
  "key0",
  "key1",
  "key2",
  "key3";
