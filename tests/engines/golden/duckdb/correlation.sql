-- SELECT dept, CORR(price, age * 2) AS r FROM people GROUP BY dept
WITH kept AS (
  SELECT
    "source"."uid" AS "unit",
    "source"."dept" AS "key0",
    CASE
      WHEN NOT (
        (
          (
            CASE
              WHEN "source"."age" IS NULL
              THEN NULL
              ELSE CAST(LEAST(GREATEST("source"."age", 0), 120) AS BIGINT)
            END * CAST(2 AS BIGINT)
          )
        ) IS NULL
      )
      THEN CASE
        WHEN NOT ISNAN(CAST("source"."price" AS DOUBLE))
        THEN CAST(FLOOR(
          LEAST(
            GREATEST(CAST("source"."price" AS DOUBLE), CAST('0.0' AS DOUBLE)),
            CAST('1.0' AS DOUBLE)
          ) * CAST('1048576.0' AS DOUBLE) + CAST('0.5' AS DOUBLE)
        ) AS BIGINT)
      END
      ELSE NULL
    END AS "value0",
    CASE
      WHEN NOT (
        (
          CASE
            WHEN ISNAN(CAST("source"."price" AS DOUBLE))
            THEN NULL
            ELSE CAST("source"."price" AS DOUBLE)
          END
        ) IS NULL
      )
      THEN (
        CASE
          WHEN "source"."age" IS NULL
          THEN NULL
          ELSE CAST(LEAST(GREATEST("source"."age", 0), 120) AS BIGINT)
        END * CAST(2 AS BIGINT)
      )
      ELSE NULL
    END AS "value1"
  FROM (
    SELECT
      "uid",
      "dept",
      "city",
      "age",
      "pay",
      CAST("price" AS DOUBLE) AS "price",
      "points",
      "ok",
      "day",
      "at"
    FROM "people"
  ) AS "source"
  WHERE
    NOT "source"."uid" IS NULL
    AND (
      "source"."dept" IN ('a', 'b''s') OR "source"."dept" IS NULL
    )
), pairs AS (
  SELECT
    "unit",
    "key0",
    COUNT("value0") AS "value0_n",
    COUNT("value1") AS "value1_n",
    SUM("value0") - CAST(524288 AS INT128) * COUNT("value0") AS "sum0",
    SUM("value1") - CAST(120 AS INT128) * COUNT("value1") AS "sum1",
    SUM((
      "value0" - 524288
    ) * (
      "value1" - 120
    )) AS "sum2",
    SUM((
      "value0" - 524288
    ) * (
      "value0" - 524288
    )) AS "sum4",
    SUM((
      "value1" - 120
    ) * (
      "value1" - 120
    )) AS "sum5"
  FROM kept
  GROUP BY
    "unit",
    "key0"
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
            ) // "value0_n"
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
            ) // "value1_n"
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
    GREATEST(
      COALESCE(
        SUM(
          CASE
            WHEN "value0_n" > 10
            THEN (
              CAST(LEAST(GREATEST("sum2", (
                -461168601842738790
              )), 461168601842738790) AS BIGINT) * 10
            ) // "value0_n"
            ELSE CAST("sum2" AS BIGINT)
          END
        ),
        0
      ),
      (
        -9223372036854775807
      )
    ),
    9223372036854775807
  ) AS BIGINT) AS "total2",
  CAST(LEAST(
    GREATEST(COALESCE(SUM(LEAST("value0_n", 10)), 0), (
      -9223372036854775807
    )),
    9223372036854775807
  ) AS BIGINT) AS "total3",
  CAST(LEAST(
    GREATEST(
      COALESCE(
        SUM(
          CASE
            WHEN "value0_n" > 10
            THEN (
              CAST(LEAST(GREATEST("sum4", (
                -461168601842738790
              )), 461168601842738790) AS BIGINT) * 10
            ) // "value0_n"
            ELSE CAST("sum4" AS BIGINT)
          END
        ),
        0
      ),
      (
        -9223372036854775807
      )
    ),
    9223372036854775807
  ) AS BIGINT) AS "total4",
  CAST(LEAST(
    GREATEST(
      COALESCE(
        SUM(
          CASE
            WHEN "value1_n" > 10
            THEN (
              CAST(LEAST(GREATEST("sum5", (
                -461168601842738790
              )), 461168601842738790) AS BIGINT) * 10
            ) // "value1_n"
            ELSE CAST("sum5" AS BIGINT)
          END
        ),
        0
      ),
      (
        -9223372036854775807
      )
    ),
    9223372036854775807
  ) AS BIGINT) AS "total5",
  "key0"
FROM pairs
GROUP BY
  "key0";
