-- SELECT HISTOGRAM(age, 0, 18, 65, 120) AS h FROM people
WITH kept AS (
  SELECT
    "source"."uid" AS "unit",
    CASE
      WHEN (
        "source"."age" >= 0
      )
      THEN CASE
        WHEN (
          "source"."age" < 18
        )
        THEN CAST(0 AS BIGINT)
        WHEN (
          "source"."age" < 65
        )
        THEN CAST(1 AS BIGINT)
        WHEN (
          "source"."age" <= 120
        )
        THEN CAST(2 AS BIGINT)
        ELSE NULL
      END
      ELSE NULL
    END AS "cell"
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
)
SELECT
  CAST(LEAST(GREATEST(COALESCE(SUM(1), 0), (
    -9223372036854775807
  )), 9223372036854775807) AS BIGINT) AS "total0",
  "cell"
FROM kept
WHERE
  NOT "cell" IS NULL
GROUP BY
  "cell";
