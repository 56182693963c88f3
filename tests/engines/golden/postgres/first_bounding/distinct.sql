-- SELECT code, COUNT(DISTINCT city) AS c, COUNT(*) AS n FROM people GROUP BY code
WITH kept AS (
  SELECT
    "source"."uid" AS "unit",
    "source"."code" AS "key0",
    "source"."city" AS "distinct0"
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
      "at" AT TIME ZONE 'UTC' AS "at",
      "code"
    FROM "people"
  ) AS "source"
  WHERE
    NOT "source"."uid" IS NULL
    AND (
      "source"."code" IN ('000', '001', '002', '003', 'b''s', 'C,', 'd', '\', 'e')
      OR "source"."code" IS NULL
    )
), values0 AS (
  SELECT
    "unit",
    "key0",
    "distinct0"
  FROM kept
  GROUP BY
    "unit",
    "key0",
    "distinct0"
), ordered0 AS (
  SELECT
    *,
    SUM(CASE WHEN "distinct0" IS NULL THEN 0 ELSE 1 END) OVER (
      PARTITION BY "unit", "key0"
      ORDER BY MD5(
        '8:discreet' || CAST(LENGTH(CAST("unit" AS VARCHAR)) AS VARCHAR) || ':' || CAST("unit" AS VARCHAR) || CASE
          WHEN "key0" IS NULL
          THEN '-'
          ELSE CAST(LENGTH(CAST("key0" AS VARCHAR)) AS VARCHAR) || ':' || CAST("key0" AS VARCHAR)
        END || CASE
          WHEN "distinct0" IS NULL
          THEN '-'
          ELSE CAST(LENGTH(CAST("distinct0" AS VARCHAR)) AS VARCHAR) || ':' || CAST("distinct0" AS VARCHAR)
        END
      ) COLLATE "C", "key0", "distinct0"
      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS "running",
    DENSE_RANK() OVER (
      PARTITION BY "unit"
      ORDER BY MD5(
        '8:discreet' || CAST(LENGTH(CAST("unit" AS VARCHAR)) AS VARCHAR) || ':' || CAST("unit" AS VARCHAR) || CASE
          WHEN "key0" IS NULL
          THEN '-'
          ELSE CAST(LENGTH(CAST("key0" AS VARCHAR)) AS VARCHAR) || ':' || CAST("key0" AS VARCHAR)
        END
      ) COLLATE "C", "key0"
    ) AS "rank"
  FROM values0
), pairs AS (
  SELECT
    "unit",
    "key0",
    COUNT(*) AS "rows"
  FROM kept
  GROUP BY
    "unit",
    "key0"
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
        END
      ) COLLATE "C", "key0"
    ) AS "rank"
  FROM pairs
)
SELECT
  COALESCE(MAX("total0"), 0) AS "total0",
  COALESCE(MAX("total1"), 0) AS "total1",
  "key0"
FROM (
  SELECT
    CAST(NULL AS BIGINT) AS "total0",
    CAST(LEAST(
      GREATEST(COALESCE(SUM(LEAST("rows", 10)), 0), (
        -9223372036854775807
      )),
      9223372036854775807
    ) AS BIGINT) AS "total1",
    "key0"
  FROM ranked
  WHERE
    "rank" <= 3
  GROUP BY
    "key0"
  UNION ALL
  SELECT
    COUNT(DISTINCT "distinct0") AS "total0",
    CAST(NULL AS BIGINT) AS "total1",
    "key0"
  FROM ordered0
  WHERE
    "running" <= 10 AND "rank" <= 3
  GROUP BY
    "key0"
) AS united
GROUP BY
  "key0";
