-- SELECT YEAR(day) AS y, DATE_TRUNC('week', at) AS w, SUM(ISODOW(at)) AS s, SUM(HOUR(at)) AS h FROM people WHERE dept LIKE 'b_''%' AND at >= DATE '2024-01-01' GROUP BY YEAR(day), DATE_TRUNC('week', at)
WITH kept AS (
  SELECT
    "source"."uid" AS "unit",
    CAST(EXTRACT(YEAR FROM CASE
      WHEN ISFINITE("source"."day")
      THEN LEAST(GREATEST("source"."day", CAST('0001-01-01' AS DATE)), CAST('9999-12-31' AS DATE))
    END) AS BIGINT) AS "key0",
    CAST(DATE_TRUNC(
      'WEEK',
      CAST(CAST(CASE
        WHEN ISFINITE("source"."at")
        THEN LEAST(
          GREATEST("source"."at", CAST('0001-01-01 00:00:00' AS TIMESTAMP)),
          CAST('9999-12-31 23:59:59.999999' AS TIMESTAMP)
        )
      END AS DATE) AS TIMESTAMP)
    ) AS DATE) AS "key1",
    CAST(EXTRACT(ISODOW FROM CAST(CASE
      WHEN ISFINITE("source"."at")
      THEN LEAST(
        GREATEST("source"."at", CAST('0001-01-01 00:00:00' AS TIMESTAMP)),
        CAST('9999-12-31 23:59:59.999999' AS TIMESTAMP)
      )
    END AS DATE)) AS BIGINT) AS "value0",
    CAST(EXTRACT(HOUR FROM CASE
      WHEN ISFINITE("source"."at")
      THEN LEAST(
        GREATEST("source"."at", CAST('0001-01-01 00:00:00' AS TIMESTAMP)),
        CAST('9999-12-31 23:59:59.999999' AS TIMESTAMP)
      )
    END) AS BIGINT) AS "value1"
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
    AND (
      (
        "source"."dept" LIKE 'b_''%'
      )
      AND (
        "source"."at" >= CAST('2024-01-01 00:00:00' AS TIMESTAMP)
      )
    )
)
SELECT
  CAST(LEAST(
    GREATEST(COALESCE(SUM("value0"), 0), (
      -9223372036854775807
    )),
    9223372036854775807
  ) AS BIGINT) AS "total0",
  CAST(LEAST(
    GREATEST(COALESCE(SUM("value1"), 0), (
      -9223372036854775807
    )),
    9223372036854775807
  ) AS BIGINT) AS "total1",
  COUNT(*) AS "total2",
  "key0",
  "key1"
FROM kept
GROUP BY
  "key0",
  "key1";
