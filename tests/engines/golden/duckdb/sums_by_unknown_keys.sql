-- SELECT day, SUM(pay) AS s, SUM(points) AS p, COUNT(price) AS c FROM people GROUP BY day
WITH kept AS (
  SELECT
    "source"."uid" AS "unit",
    CASE
      WHEN "source"."day" BETWEEN CAST('0001-01-01' AS DATE) AND CAST('9999-12-31' AS DATE)
      THEN "source"."day"
    END AS "key0",
    CASE
      WHEN NOT ISNAN(CAST("source"."pay" AS DOUBLE))
      THEN CAST(FLOOR(
        LEAST(
          GREATEST(CAST("source"."pay" AS DOUBLE), CAST('-1.0' AS DOUBLE)),
          CAST('1000000000.0' AS DOUBLE)
        ) * CAST('0.001953125' AS DOUBLE) + CAST('0.5' AS DOUBLE)
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
          WHEN ISNAN(CAST("source"."price" AS DOUBLE))
          THEN NULL
          ELSE CAST("source"."price" AS DOUBLE)
        END
      ) IS NULL
      THEN NULL
      ELSE CAST(0 AS BIGINT)
    END AS "value2"
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
), pairs AS (
  SELECT
    "unit",
    "key0",
    COUNT("value0") AS "value0_n",
    COUNT("value1") AS "value1_n",
    CAST(LEAST(COUNT("value2"), 10) AS TINYINT) AS "value2_n",
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
      ORDER BY CAST((
        (
          (
            "mixed" * "mixed"
          ) % 2147483579
        ) * "mixed"
      ) % 2147483579 AS INT), "place_key0"
    ) AS "rank"
  FROM (
    SELECT
      *,
      (
        CAST(CONCAT('0x', SUBSTRING(MD5(CONCAT('8:discreet unit ', CAST("unit" AS TEXT))), 1, 15)) AS BIGINT) % 2147483579 + "hash_key0" + 3458764514357408252
      ) % 2147483579 AS "mixed"
    FROM (
      SELECT
        "pairs".*,
        CASE WHEN "pairs"."key0" IS NULL THEN 95494160 ELSE "hashes0"."hash" END AS "hash_key0",
        "hashes0"."place" AS "place_key0"
      FROM pairs
      LEFT JOIN (
        SELECT
          "key",
          CAST(CONCAT('0x', SUBSTRING(MD5(CONCAT('8:discreet key ', CAST("key" AS TEXT))), 1, 15)) AS BIGINT) % 2147483579 AS "hash",
          ROW_NUMBER() OVER (ORDER BY "key") AS "place"
        FROM (
          SELECT
            "key0" AS "key"
          FROM (
            SELECT
              "source"."uid" AS "unit",
              CASE
                WHEN "source"."day" BETWEEN CAST('0001-01-01' AS DATE) AND CAST('9999-12-31' AS DATE)
                THEN "source"."day"
              END AS "key0"
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
          ) AS counted
          GROUP BY
            "key0"
        ) AS keys
      ) AS hashes0
        ON "pairs"."key0" = "hashes0"."key"
    ) AS joined0
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
