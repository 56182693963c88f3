-- SELECT dept, city, day, ok, COUNT(*) AS n FROM people WHERE age > 1 GROUP BY dept, city, day, ok
WITH kept AS (
  SELECT
    "source"."uid" AS "unit",
    "source"."dept" AS "key0",
    "source"."city" AS "key1",
    CASE
      WHEN "source"."day" BETWEEN CAST('0001-01-01' AS DATE) AND CAST('9999-12-31' AS DATE)
      THEN "source"."day"
    END AS "key2",
    "source"."ok" AS "key3"
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
    (
      NOT "source"."uid" IS NULL AND (
        "source"."age" > 1
      )
    )
    AND (
      "source"."dept" IN ('a', 'b''s') OR "source"."dept" IS NULL
    )
    AND (
      "source"."ok" IN (FALSE, TRUE)
    )
), pairs AS (
  SELECT
    "unit",
    "key0",
    "key1",
    "key2",
    "key3",
    COUNT(*) AS "rows"
  FROM kept
  GROUP BY
    "unit",
    "key0",
    "key1",
    "key2",
    "key3"
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
      ) % 2147483579, "key0", "key1", "key2", "key3"
    ) AS "rank"
  FROM (
    SELECT
      *,
      (
        CAST(CAST((
          'x' || SUBSTRING(MD5('8:discreet unit ' || CAST("unit" AS VARCHAR)) FROM 1 FOR 15)
        ) AS BIT(60)) AS BIGINT) % 2147483579 + (
          (
            (
              "fold3" * "fold3"
            ) % 2147483579
          ) * "fold3"
        ) % 2147483579 + 3458764514357408252
      ) % 2147483579 AS "mixed"
    FROM (
      SELECT
        *,
        (
          414694625 * (
            (
              (
                (
                  "fold2" * "fold2"
                ) % 2147483579
              ) * "fold2"
            ) % 2147483579
          ) + "hash_key3"
        ) % 2147483579 AS "fold3"
      FROM (
        SELECT
          *,
          (
            414694625 * (
              (
                (
                  (
                    "fold1" * "fold1"
                  ) % 2147483579
                ) * "fold1"
              ) % 2147483579
            ) + "hash_key2"
          ) % 2147483579 AS "fold2"
        FROM (
          SELECT
            *,
            (
              414694625 * "hash_key0" + (
                (
                  (
                    "hash_key1" * "hash_key1"
                  ) % 2147483579
                ) * "hash_key1"
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
                WHEN "key1" IS NULL
                THEN 2364390
                ELSE (
                  843733358 * CAST("key1" % 2147483579 AS BIGINT) + 472315391 * CAST("key1" % 2147483647 AS BIGINT) + 3458764515777522790
                ) % 2147483579
              END AS "hash_key1",
              CASE
                WHEN "key2" IS NULL
                THEN 95494160
                ELSE CAST(CAST((
                  'x' || SUBSTRING(MD5('8:discreet key ' || CAST("key2" AS VARCHAR)) FROM 1 FOR 15)
                ) AS BIT(60)) AS BIGINT) % 2147483579
              END AS "hash_key2",
              CASE
                WHEN "key3" IS NULL
                THEN 95494160
                ELSE CAST(JSONB_OBJECT_FIELD_TEXT(CAST('{"false": 794791141, "true": 84478233}' AS JSONB), CAST("key3" AS TEXT)) AS BIGINT)
              END AS "hash_key3"
            FROM pairs
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
      ORDER BY
        "unit"
      OFFSET 0
    ) AS level3
    ORDER BY
      "unit"
    OFFSET 0
  ) AS level4
)
SELECT
  CAST(LEAST(
    GREATEST(COALESCE(SUM(LEAST("rows", 10)), 0), (
      -9223372036854775807
    )),
    9223372036854775807
  ) AS BIGINT) AS "total0",
  CAST(LEAST(GREATEST(COALESCE(SUM(1), 0), (
    -9223372036854775807
  )), 9223372036854775807) AS BIGINT) AS "total1",
  "key0",
  "key1",
  "key2",
  "key3"
FROM ranked
WHERE
  "rank" <= 3
GROUP BY
  "key0",
  "key1",
  "key2",
  "key3";
