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
      ORDER BY (
        (
          (
            "mixed_value" * "mixed_value"
          ) % 2147483579
        ) * "mixed_value"
      ) % 2147483579, "key0", "distinct0"
      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS "running",
    DENSE_RANK() OVER (
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
        "hash_unit" + "hash_key0" + 3458764514357408252
      ) % 2147483579 AS "mixed",
      (
        "hash_unit" + (
          (
            (
              "fold1" * "fold1"
            ) % 2147483579
          ) * "fold1"
        ) % 2147483579 + 3458764514357408252
      ) % 2147483579 AS "mixed_value"
    FROM (
      SELECT
        *,
        (
          414694625 * "hash_key0" + (
            (
              (
                "hash_distinct0" * "hash_distinct0"
              ) % 2147483579
            ) * "hash_distinct0"
          ) % 2147483579
        ) % 2147483579 AS "fold1"
      FROM (
        SELECT
          *,
          CASE
            WHEN "key0" IS NULL
            THEN 95494160
            ELSE CAST(JSONB_OBJECT_FIELD_TEXT(
              CAST('{"000": 1369909528, "001": 73808799, "002": 1426494660, "003": 266888, "C,": 507543878, "\\": 1207514467, "b''s": 753311768, "d": 919124149, "e": 900140895}' AS JSONB),
              CAST("key0" AS TEXT)
            ) AS BIGINT)
          END AS "hash_key0",
          CASE
            WHEN "distinct0" IS NULL
            THEN 2364390
            ELSE (
              843733358 * CAST("distinct0" % 2147483579 AS BIGINT) + 472315391 * CAST("distinct0" % 2147483647 AS BIGINT) + 3458764515777522790
            ) % 2147483579
          END AS "hash_distinct0",
          CAST(CAST((
            'x' || SUBSTRING(MD5('8:discreet unit ' || CAST("unit" AS VARCHAR)) FROM 1 FOR 15)
          ) AS BIT(60)) AS BIGINT) % 2147483579 AS "hash_unit"
        FROM values0
        ORDER BY
          "unit"
        OFFSET 0
      ) AS level0
      ORDER BY
        "unit"
      OFFSET 0
    ) AS level1
    ORDER BY
      "unit"
    OFFSET 0
  ) AS level2
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
          ELSE CAST(JSONB_OBJECT_FIELD_TEXT(
            CAST('{"000": 1369909528, "001": 73808799, "002": 1426494660, "003": 266888, "C,": 507543878, "\\": 1207514467, "b''s": 753311768, "d": 919124149, "e": 900140895}' AS JSONB),
            CAST("key0" AS TEXT)
          ) AS BIGINT)
        END + 3458764514357408252
      ) % 2147483579 AS "mixed"
    FROM pairs
    ORDER BY
      "unit"
    OFFSET 0
  ) AS level0
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
