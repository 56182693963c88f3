-- SELECT SUM(age / 2) AS a, SUM(pay / 12) AS b, SUM(ROUND(pay, 1)) AS c, SUM(CEIL(price)) AS d, SUM(ABS(age)) AS e, SUM(COALESCE(age, points, 0)) AS f, SUM(GREATEST(age, 3)) AS g, SUM(NULLIF(points, 7)) AS h FROM people
WITH kept AS (
  SELECT
    "source"."uid" AS "unit",
    (
      CASE
        WHEN "source"."age" IS NULL
        THEN NULL
        ELSE CAST(LEAST(GREATEST("source"."age", 0), 120) AS BIGINT)
      END * 1
    ) AS "value0",
    (
      (
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
        END * 32 - (
          -34
        )
      ) / 3 + (
        -11
      )
    ) AS "value1",
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
    END AS "value2",
    (
      (
        CASE
          WHEN NOT CAST("source"."price" AS DOUBLE PRECISION) = CAST('NaN' AS DOUBLE PRECISION)
          THEN CAST(FLOOR(
            LEAST(
              GREATEST(CAST("source"."price" AS DOUBLE PRECISION), CAST('0.0' AS DOUBLE PRECISION)),
              CAST('1.0' AS DOUBLE PRECISION)
            ) * CAST('1048576.0' AS DOUBLE PRECISION) + CAST('0.5' AS DOUBLE PRECISION)
          ) AS BIGINT)
        END * 1 - (
          -1048575
        )
      ) / 1048576 + 0
    ) AS "value3",
    ABS(
      CASE
        WHEN "source"."age" IS NULL
        THEN NULL
        ELSE CAST(LEAST(GREATEST("source"."age", 0), 120) AS BIGINT)
      END
    ) AS "value4",
    COALESCE(
      CASE
        WHEN "source"."age" IS NULL
        THEN NULL
        ELSE CAST(LEAST(GREATEST("source"."age", 0), 120) AS BIGINT)
      END,
      CASE
        WHEN "source"."points" IS NULL
        THEN NULL
        ELSE CAST(LEAST(GREATEST("source"."points", 0), 1099511627776) AS BIGINT)
      END,
      CAST(0 AS BIGINT)
    ) AS "value5",
    GREATEST(
      CASE
        WHEN "source"."age" IS NULL
        THEN NULL
        ELSE CAST(LEAST(GREATEST("source"."age", 0), 120) AS BIGINT)
      END,
      CAST(3 AS BIGINT)
    ) AS "value6",
    CASE
      WHEN "source"."points" = 7
      THEN NULL
      ELSE CASE
        WHEN "source"."points" IS NULL
        THEN NULL
        ELSE CAST(LEAST(GREATEST("source"."points", 0), 1099511627776) AS BIGINT)
      END
    END AS "value7"
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
  CAST(LEAST(
    GREATEST(COALESCE(SUM("value2"), 0), (
      -9223372036854775807
    )),
    9223372036854775807
  ) AS BIGINT) AS "total2",
  CAST(LEAST(
    GREATEST(COALESCE(SUM("value3"), 0), (
      -9223372036854775807
    )),
    9223372036854775807
  ) AS BIGINT) AS "total3",
  CAST(LEAST(
    GREATEST(COALESCE(SUM("value4"), 0), (
      -9223372036854775807
    )),
    9223372036854775807
  ) AS BIGINT) AS "total4",
  CAST(LEAST(
    GREATEST(COALESCE(SUM("value5"), 0), (
      -9223372036854775807
    )),
    9223372036854775807
  ) AS BIGINT) AS "total5",
  CAST(LEAST(
    GREATEST(COALESCE(SUM("value6"), 0), (
      -9223372036854775807
    )),
    9223372036854775807
  ) AS BIGINT) AS "total6",
  CAST(LEAST(
    GREATEST(COALESCE(SUM("value7"), 0), (
      -9223372036854775807
    )),
    9223372036854775807
  ) AS BIGINT) AS "total7"
FROM kept;
