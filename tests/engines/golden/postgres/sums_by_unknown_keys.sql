-- SELECT day, SUM(pay) AS s, SUM(points) AS p, COUNT(price) AS c FROM people GROUP BY day
WITH kept AS (
  SELECT
    "source"."uid" AS "unit",
    CASE
      WHEN "source"."day" BETWEEN CAST('0001-01-01' AS DATE) AND CAST('9999-12-31' AS DATE)
      THEN "source"."day"
    END AS "key0",
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
      WHEN "source"."points" IS NULL
      THEN NULL
      ELSE CAST(LEAST(GREATEST("source"."points", 0), 1099511627776) AS BIGINT)
    END AS "value1",
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
    END AS "value0_there",
    CASE WHEN (
      "source"."points"
    ) IS NULL THEN NULL ELSE CAST(0 AS BIGINT) END AS "value1_there",
    CASE
      WHEN (
        CASE
          WHEN CAST("source"."price" AS DOUBLE PRECISION) = CAST('NaN' AS DOUBLE PRECISION)
          THEN NULL
          ELSE CAST("source"."price" AS DOUBLE PRECISION)
        END
      ) IS NULL
      THEN NULL
      ELSE CAST(0 AS BIGINT)
    END AS "value2"
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
), pairs AS (
  SELECT
    "unit",
    "key0",
    COUNT("value0_there") AS "value0_n",
    COUNT("value1_there") AS "value1_n",
    COUNT("value2") AS "value2_n",
    SUM("value0") AS "sum0",
    SUM("value1") AS "sum1"
  FROM kept
  GROUP BY
    "unit",
    "key0"
), ranked AS (
  SELECT
    *,
    ROW_NUMBER() OVER (
      PARTITION BY "unit"
      ORDER BY (
        (
          (
            "mixed" * "mixed"
          ) % 2147483579
        ) * "mixed"
      ) % 2147483579, "key0"
    ) AS "rank"
  FROM (
    SELECT
      *,
      (
        CAST(CAST((
          'x' || SUBSTRING(MD5('8:discreet unit ' || CAST("unit" AS VARCHAR)) FROM 1 FOR 15)
        ) AS BIT(60)) AS BIGINT) % 2147483579 + CASE
          WHEN "key0" IS NULL
          THEN 95494160
          ELSE CAST(CAST((
            'x' || SUBSTRING(MD5('8:discreet key ' || CAST("key0" AS VARCHAR)) FROM 1 FOR 15)
          ) AS BIT(60)) AS BIGINT) % 2147483579
        END + 3458764514357408252
      ) % 2147483579 AS "mixed"
    FROM pairs
    ORDER BY
      "unit"
    OFFSET 0
  ) AS level0
)
SELECT
  CAST(LEAST(
    GREATEST(
      COALESCE(
        SUM(
          CASE
            WHEN "value0_n" > 10
            THEN (
              CAST(LEAST(GREATEST("sum0", (
                -461168601842738790
              )), 461168601842738790) AS BIGINT) * 10
            ) / "value0_n"
            ELSE CAST("sum0" AS BIGINT)
          END
        ),
        0
      ),
      (
        -9223372036854775807
      )
    ),
    9223372036854775807
  ) AS BIGINT) AS "total0",
  CAST(LEAST(
    GREATEST(
      COALESCE(
        SUM(
          CASE
            WHEN "value1_n" > 10
            THEN (
              CAST(LEAST(GREATEST("sum1", (
                -461168601842738790
              )), 461168601842738790) AS BIGINT) * 10
            ) / "value1_n"
            ELSE CAST("sum1" AS BIGINT)
          END
        ),
        0
      ),
      (
        -9223372036854775807
      )
    ),
    9223372036854775807
  ) AS BIGINT) AS "total1",
  CAST(LEAST(
    GREATEST(COALESCE(SUM(LEAST("value2_n", 10)), 0), (
      -9223372036854775807
    )),
    9223372036854775807
  ) AS BIGINT) AS "total2",
  CAST(LEAST(GREATEST(COALESCE(SUM(1), 0), (
    -9223372036854775807
  )), 9223372036854775807) AS BIGINT) AS "total3",
  "key0"
FROM ranked
WHERE
  "rank" <= 3
GROUP BY
  "key0";
