-- SELECT dept, age // 10 AS decade, COUNT(*) AS n FROM people GROUP BY CUBE(dept, age // 10)
WITH kept AS (
  SELECT
    "listed"."unit",
    CASE
      WHEN "listed"."key0" IS NULL
      THEN 2
      WHEN "listed"."key0" = 'a'
      THEN 0
      WHEN "listed"."key0" = 'b''s'
      THEN 1
    END AS "key0",
    CASE
      WHEN "listed"."key1" >= 0 AND "listed"."key1" <= 12
      THEN CAST(CAST("listed"."key1" AS BIGINT) - 0 AS INT)
    END AS "key1"
  FROM (
    SELECT
      "source"."uid" AS "unit",
      "source"."dept" AS "key0",
      (
        (
          CASE
            WHEN "source"."age" IS NULL
            THEN NULL
            ELSE CAST(LEAST(GREATEST("source"."age", 0), 120) AS BIGINT)
          END * 1 - 0
        ) // 10 + 0
      ) AS "key1"
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
  ) AS listed
  WHERE
    (
      "listed"."key0" IN ('a', 'b''s') OR "listed"."key0" IS NULL
    )
    AND (
      (
        "listed"."key1" >= 0 AND "listed"."key1" <= 12
      )
    )
), pairs AS (
  SELECT
    "unit",
    "key0",
    "key1",
    COUNT(*) AS "rows"
  FROM kept
  GROUP BY
    "unit",
    "key0",
    "key1"
), ranked AS (
  SELECT
    *,
    ROW_NUMBER() OVER (
      PARTITION BY "unit"
      ORDER BY MD5(
        CONCAT(
          '8:discreet',
          CAST(LENGTH(CAST("unit" AS TEXT)) AS TEXT),
          ':',
          CAST("unit" AS TEXT),
          CASE
            WHEN "key0" IS NULL
            THEN '-'
            ELSE CONCAT(CAST(LENGTH(CAST("key0" AS TEXT)) AS TEXT), ':', CAST("key0" AS TEXT))
          END,
          CASE
            WHEN "key1" IS NULL
            THEN '-'
            ELSE CONCAT(CAST(LENGTH(CAST("key1" AS TEXT)) AS TEXT), ':', CAST("key1" AS TEXT))
          END
        )
      ), "key0", "key1"
    ) AS "rank"
  FROM pairs
)
SELECT
  CAST(LEAST(
    GREATEST(COALESCE(SUM(LEAST("rows", 10)), 0), (
      -9223372036854775807
    )),
    9223372036854775807
  ) AS BIGINT) AS "total0",
  "key0",
  "key1"
FROM ranked
WHERE
  "rank" <= 3
GROUP BY
  "key0",
  "key1"
ORDER BY
  "key0";
