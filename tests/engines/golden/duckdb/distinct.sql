-- SELECT code, COUNT(DISTINCT city) AS c, COUNT(*) AS n FROM people GROUP BY code
WITH kept AS (
  SELECT
    "source"."uid" AS "unit",
    CASE
      WHEN (
        "source"."code"
      ) IS NULL
      THEN CAST(100132884316169 AS BIGINT)
      ELSE "keys0"."code"
    END AS "key0",
    "source"."city" AS "distinct0"
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
      "at",
      "code"
    FROM "people"
  ) AS "source"
  LEFT JOIN (
    SELECT
      "part" AS "key",
      (
        CAST(CONCAT('0x', SUBSTRING(MD5(CONCAT('8:discreet key ', CAST("part" AS TEXT))), 1, 15)) AS BIGINT) % 2147483579
      ) * CAST(1048576 AS BIGINT) + CAST("place" AS BIGINT) AS "code"
    FROM (
      SELECT
        "part",
        "place" - 1 AS "place"
      FROM UNNEST(STR_SPLIT('000;001;002;003;C,;\;b''s;d;e', ';')) WITH ORDINALITY AS parts("part", "place")
    ) AS split
  ) AS keys0
    ON "source"."code" = "keys0"."key"
  WHERE
    NOT "source"."uid" IS NULL
    AND (
      NOT "keys0"."key" IS NULL OR (
        "source"."code"
      ) IS NULL
    )
), values0 AS (
  SELECT
    "unit",
    "key0",
    "distinct0",
    (
      "key0" >> 20
    ) AS "hash_key0",
    CASE
      WHEN "distinct0" IS NULL
      THEN 2364390
      ELSE (
        843733358 * CAST("distinct0" % 2147483579 AS BIGINT) + 472315391 * CAST("distinct0" % 2147483647 AS BIGINT) + 3458764515777522790
      ) % 2147483579
    END AS "hash_distinct0",
    CAST(CONCAT('0x', SUBSTRING(MD5(CONCAT('8:discreet unit ', CAST("unit" AS TEXT))), 1, 15)) AS BIGINT) % 2147483579 AS "hash_unit"
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
      ORDER BY CAST((
        (
          (
            "mixed_value" * "mixed_value"
          ) % 2147483579
        ) * "mixed_value"
      ) % 2147483579 AS INT), "key0", "distinct0"
      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS "running",
    DENSE_RANK() OVER (
      PARTITION BY "unit"
      ORDER BY CAST((
        (
          (
            "mixed" * "mixed"
          ) % 2147483579
        ) * "mixed"
      ) % 2147483579 AS INT), "key0"
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
      FROM values0
    ) AS level0
  ) AS level1
), pairs AS (
  SELECT
    "unit",
    "key0",
    CAST(LEAST(COUNT(*), 10) AS TINYINT) AS "rows",
    (
      CAST(CONCAT('0x', SUBSTRING(MD5(CONCAT('8:discreet unit ', CAST("unit" AS TEXT))), 1, 15)) AS BIGINT) % 2147483579 + (
        "key0" >> 20
      ) + 3458764514357408252
    ) % 2147483579 AS "mixed"
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
      ) % 2147483579 AS INT), "key0"
    ) AS "rank"
  FROM pairs
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
