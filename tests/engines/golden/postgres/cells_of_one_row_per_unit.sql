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
    "listed"."value0",
    "listed"."value0_there"
  FROM (
    SELECT
      "source"."uid" AS "unit",
      "source"."code" AS "key0",
      "source"."dept" AS "key1",
      CASE
        WHEN NOT CAST("source"."price" AS DOUBLE PRECISION) = CAST('NaN' AS DOUBLE PRECISION)
        THEN CAST(FLOOR(
          LEAST(
            GREATEST(CAST("source"."price" AS DOUBLE PRECISION), CAST('0.0' AS DOUBLE PRECISION)),
            CAST('1.0' AS DOUBLE PRECISION)
          ) * CAST('1048576.0' AS DOUBLE PRECISION) + CAST('0.5' AS DOUBLE PRECISION)
        ) AS BIGINT)
      END AS "value0",
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
      END AS "value0_there"
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
      NOT "source"."uid" IS NULL AND (
        "source"."ok" = TRUE
      )
  ) AS listed
  LEFT JOIN (
    SELECT
      "part" COLLATE "C" AS "key",
      CASE
        WHEN CAST("place" AS INT) >= 5
        THEN CAST("place" AS INT) + 1
        ELSE CAST("place" AS INT)
      END AS "code"
    FROM (
      SELECT
        "part",
        "place" - 1 AS "place"
      FROM UNNEST(STRING_TO_ARRAY('000;001;002;003;b''s;C,;d;\;e', ';')) WITH ORDINALITY AS parts("part", "place")
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
