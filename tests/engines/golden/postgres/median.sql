-- SELECT dept, MEDIAN(price) AS m FROM people GROUP BY dept
WITH kept AS (
  SELECT
    "source"."uid" AS "unit",
    "source"."dept" AS "key0",
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
        END * 1 - 0
      ) / 2053 + 0
    ) AS "cell"
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
      "source"."dept" IN ('a', 'b''s') OR "source"."dept" IS NULL
    )
), cells AS (
  SELECT
    "unit",
    "key0",
    "cell",
    COUNT(*) AS "rows"
  FROM kept
  GROUP BY
    "unit",
    "key0",
    "cell"
), ranked AS (
  SELECT
    *,
    SUM(CASE WHEN "cell" IS NULL THEN 0 ELSE "rows" END) OVER (
      PARTITION BY "unit", "key0"
      ORDER BY (
        (
          (
            "mixed_value" * "mixed_value"
          ) % 2147483579
        ) * "mixed_value"
      ) % 2147483579, "key0", "cell"
      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS "running"
  FROM (
    SELECT
      *,
      (
        CAST(CAST((
          'x' || SUBSTRING(MD5('8:discreet unit ' || CAST("unit" AS VARCHAR)) FROM 1 FOR 15)
        ) AS BIT(60)) AS BIGINT) % 2147483579 + (
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
                "hash_cell" * "hash_cell"
              ) % 2147483579
            ) * "hash_cell"
          ) % 2147483579
        ) % 2147483579 AS "fold1"
      FROM (
        SELECT
          *,
          CASE
            WHEN "key0" IS NULL
            THEN 95494160
            ELSE CAST(JSONB_OBJECT_FIELD_TEXT(CAST('{"a": 1882965758, "b''s": 753311768}' AS JSONB), CAST("key0" AS TEXT)) AS BIGINT)
          END AS "hash_key0",
          CASE
            WHEN "cell" IS NULL
            THEN 2364390
            ELSE (
              843733358 * CAST("cell" % 2147483579 AS BIGINT) + 472315391 * CAST("cell" % 2147483647 AS BIGINT) + 3458764515777522790
            ) % 2147483579
          END AS "hash_cell"
        FROM cells
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
)
SELECT
  CAST(LEAST(
    GREATEST(
      COALESCE(SUM(LEAST("rows", GREATEST(10 - (
        "running" - "rows"
      ), 0))), 0),
      (
        -9223372036854775807
      )
    ),
    9223372036854775807
  ) AS BIGINT) AS "total0",
  "cell",
  "key0"
FROM ranked
WHERE
  NOT "cell" IS NULL
GROUP BY
  "cell",
  "key0";
