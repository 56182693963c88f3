-- SELECT age // 10 AS decade, AVG(pay) AS m FROM people GROUP BY age // 10
SELECT
  *
FROM (
  WITH kept AS (
    SELECT
      "source"."uid" AS "unit",
      (
        (
          CASE
            WHEN "source"."age" IS NULL
            THEN NULL
            ELSE CAST(LEAST(GREATEST("source"."age", 0), 120) AS BIGINT)
          END * 1 - 0
        ) / 10 + 0
      ) AS "key0",
      CASE
        WHEN NOT CAST("source"."pay" AS DOUBLE PRECISION) = CAST('NaN' AS DOUBLE PRECISION)
        THEN CAST(FLOOR(
          CASE
            WHEN ABS(
              LEAST(
                GREATEST(CAST("source"."pay" AS DOUBLE PRECISION), CAST('-1.0' AS DOUBLE PRECISION)),
                CAST('1000000000.0' AS DOUBLE PRECISION)
              )
            ) < CAST('1e-200' AS DOUBLE PRECISION)
            THEN CAST('0.0' AS DOUBLE PRECISION)
            ELSE LEAST(
              GREATEST(CAST("source"."pay" AS DOUBLE PRECISION), CAST('-1.0' AS DOUBLE PRECISION)),
              CAST('1000000000.0' AS DOUBLE PRECISION)
            )
          END * CAST('0.001953125' AS DOUBLE PRECISION) + CAST('0.5' AS DOUBLE PRECISION)
        ) AS BIGINT)
      END AS "value0",
      CASE
        WHEN (
          CASE
            WHEN CAST("source"."pay" AS DOUBLE PRECISION) = CAST('NaN' AS DOUBLE PRECISION)
            THEN NULL
            ELSE CAST("source"."pay" AS DOUBLE PRECISION)
          END
        ) IS NULL
        THEN NULL
        ELSE CAST(0 AS BIGINT)
      END AS "value0_there"
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
    CAST(LEAST(
      GREATEST(
        COALESCE(SUM("value0") - CAST(976562 AS DECIMAL) * COUNT("value0_there"), 0),
        (
          -9223372036854775807
        )
      ),
      9223372036854775807
    ) AS BIGINT) AS "total0",
    COUNT("value0_there") AS "total1",
    "key0"
  FROM kept
  GROUP BY
    "key0"
) AS grouped
WHERE
  CASE WHEN NOT "total0" IS NULL THEN NOT (
    "key0"
  ) IS NULL ELSE FALSE END;
