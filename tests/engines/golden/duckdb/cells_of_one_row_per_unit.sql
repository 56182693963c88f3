-- SELECT code, dept, SUM(price) AS s FROM people WHERE ok GROUP BY GROUPING SETS ((code, dept), (code))
WITH kept AS (
  SELECT
    "listed"."unit",
    CASE WHEN "listed"."key0" IS NULL THEN 5 ELSE "keys0"."code" END AS "key0",
    CASE
      WHEN "listed"."key1" IS NULL
      THEN 2
      WHEN "listed"."key1" = 'a'
      THEN 0
      WHEN "listed"."key1" = 'b''s'
      THEN 1
    END AS "key1",
    "listed"."value0"
  FROM (
    SELECT
      "source"."uid" AS "unit",
      "source"."code" AS "key0",
      "source"."dept" AS "key1",
      CASE
        WHEN NOT ISNAN(CAST("source"."price" AS DOUBLE))
        THEN CAST(FLOOR(
          LEAST(
            GREATEST(CAST("source"."price" AS DOUBLE), CAST('0.0' AS DOUBLE)),
            CAST('1.0' AS DOUBLE)
          ) * CAST('1048576.0' AS DOUBLE) + CAST('0.5' AS DOUBLE)
        ) AS BIGINT)
      END AS "value0"
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
    WHERE
      NOT "source"."uid" IS NULL AND (
        "source"."ok" = TRUE
      )
  ) AS listed
  LEFT JOIN (
    SELECT
      "part" AS "key",
      CASE
        WHEN CAST("place" AS INT) >= 5
        THEN CAST("place" AS INT) + 1
        ELSE CAST("place" AS INT)
      END AS "code"
    FROM (
      SELECT
        "part",
        "place" - 1 AS "place"
      FROM UNNEST(STR_SPLIT('000;001;002;003;b''s;C,;d;\;e', ';')) WITH ORDINALITY AS parts("part", "place")
    ) AS split
  ) AS keys0
    ON "listed"."key0" = "keys0"."key"
  WHERE
    (
      NOT "keys0"."key" IS NULL OR "listed"."key0" IS NULL
    )
    AND (
      "listed"."key1" IN ('a', 'b''s') OR "listed"."key1" IS NULL
    )
)
SELECT
  CAST(LEAST(
    GREATEST(COALESCE(SUM("value0"), 0), (
      -9223372036854775807
    )),
    9223372036854775807
  ) AS BIGINT) AS "total0",
  "key0",
  "key1"
FROM kept
GROUP BY
  "key0",
  "key1"
ORDER BY
  "key0";
