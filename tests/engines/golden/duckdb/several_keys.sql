-- SELECT dept, city, day, ok, COUNT(*) AS n FROM people WHERE age > 1 GROUP BY dept, city, day, ok
WITH kept AS (
  SELECT
    "source"."uid" AS "unit",
    CASE
      WHEN (
        "source"."dept"
      ) IS NULL
      THEN CAST(100132884316162 AS BIGINT)
      WHEN "source"."dept" = 'a'
      THEN CAST(1974432702660608 AS BIGINT)
      WHEN "source"."dept" = 'b''s'
      THEN CAST(789904640442369 AS BIGINT)
    END AS "key0",
    "source"."city" AS "key1",
    CASE
      WHEN "source"."day" BETWEEN CAST('0001-01-01' AS DATE) AND CAST('9999-12-31' AS DATE)
      THEN "source"."day"
    END AS "key2",
    CASE
      WHEN "source"."ok" = FALSE
      THEN CAST(833398915465216 AS BIGINT)
      WHEN "source"."ok" = TRUE
      THEN CAST(88581847646209 AS BIGINT)
    END AS "key3"
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
    CAST(LEAST(COUNT(*), 10) AS TINYINT) AS "rows"
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
      ORDER BY CAST((
        (
          (
            "mixed" * "mixed"
          ) % 2147483579
        ) * "mixed"
      ) % 2147483579 AS INT), "key0", "key1", "place_key2", "key3"
    ) AS "rank"
  FROM (
    SELECT
      *,
      (
        CAST(CONCAT('0x', SUBSTRING(MD5(CONCAT('8:discreet unit ', CAST("unit" AS TEXT))), 1, 15)) AS BIGINT) % 2147483579 + (
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
              (
                "key0" >> 20
              ) AS "hash_key0",
              CASE
                WHEN "key1" IS NULL
                THEN 2364390
                ELSE (
                  843733358 * CAST("key1" % 2147483579 AS BIGINT) + 472315391 * CAST("key1" % 2147483647 AS BIGINT) + 3458764515777522790
                ) % 2147483579
              END AS "hash_key1",
              (
                "key3" >> 20
              ) AS "hash_key3"
            FROM (
              SELECT
                "pairs".*,
                CASE WHEN "pairs"."key2" IS NULL THEN 95494160 ELSE "hashes2"."hash" END AS "hash_key2",
                "hashes2"."place" AS "place_key2"
              FROM pairs
              LEFT JOIN (
                SELECT
                  "key",
                  CAST(CONCAT('0x', SUBSTRING(MD5(CONCAT('8:discreet key ', CAST("key" AS TEXT))), 1, 15)) AS BIGINT) % 2147483579 AS "hash",
                  ROW_NUMBER() OVER (ORDER BY "key") AS "place"
                FROM (
                  SELECT
                    "key2" AS "key"
                  FROM (
                    SELECT
                      "source"."uid" AS "unit",
                      CASE
                        WHEN (
                          "source"."dept"
                        ) IS NULL
                        THEN CAST(100132884316162 AS BIGINT)
                        WHEN "source"."dept" = 'a'
                        THEN CAST(1974432702660608 AS BIGINT)
                        WHEN "source"."dept" = 'b''s'
                        THEN CAST(789904640442369 AS BIGINT)
                      END AS "key0",
                      "source"."city" AS "key1",
                      CASE
                        WHEN "source"."day" BETWEEN CAST('0001-01-01' AS DATE) AND CAST('9999-12-31' AS DATE)
                        THEN "source"."day"
                      END AS "key2",
                      CASE
                        WHEN "source"."ok" = FALSE
                        THEN CAST(833398915465216 AS BIGINT)
                        WHEN "source"."ok" = TRUE
                        THEN CAST(88581847646209 AS BIGINT)
                      END AS "key3"
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
                  ) AS counted
                  GROUP BY
                    "key2"
                ) AS keys
              ) AS hashes2
                ON "pairs"."key2" = "hashes2"."key"
            ) AS joined2
          ) AS level0
        ) AS level1
      ) AS level2
    ) AS level3
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
