-- SELECT age // 10 AS decade, AVG(pay) AS m FROM people GROUP BY age // 10
WITH kept AS (
  SELECT
    `source`.`uid` AS `unit`,
    (
      (
        CASE
          WHEN `source`.`age` IS NULL
          THEN NULL
          ELSE CAST(LEAST(GREATEST(`source`.`age`, 0), 120) AS BIGINT)
        END * 1 - 0
      ) DIV 10 + 0
    ) AS `key0`,
    CASE
      WHEN NOT CAST(`source`.`pay` AS DOUBLE) = CAST('NaN' AS DOUBLE)
      THEN CAST(FLOOR(
        LEAST(
          GREATEST(CAST(`source`.`pay` AS DOUBLE), CAST('-1.0' AS DOUBLE)),
          CAST('1000000000.0' AS DOUBLE)
        ) * CAST('0.001953125' AS DOUBLE) + CAST('0.5' AS DOUBLE)
      ) AS BIGINT)
    END AS `value0`
  FROM (
    SELECT
      CASE WHEN IS_VALID_UTF8(`uid`) THEN `uid` END AS `uid`,
      CASE WHEN IS_VALID_UTF8(RTRIM(`dept`)) THEN RTRIM(`dept`) END AS `dept`,
      `city`,
      `age`,
      `pay`,
      CAST(`price` AS DOUBLE) AS `price`,
      `points`,
      `ok`,
      `day`,
      CAST(`at` AS TIMESTAMP_NTZ) AS `at`
    FROM `people`
  ) AS `source`
  WHERE
    NOT `source`.`uid` IS NULL
)
SELECT
  *
FROM (
  SELECT
    CAST(LEAST(
      GREATEST(
        COALESCE(SUM(`value0`) - CAST(976562 AS DECIMAL(38, 0)) * COUNT(`value0`), 0),
        (
          -9223372036854775807
        )
      ),
      9223372036854775807
    ) AS BIGINT) AS `total0`,
    COUNT(`value0`) AS `total1`,
    `key0`
  FROM kept
  GROUP BY
    `key0`
) AS grouped
WHERE
  CASE WHEN NOT `total0` IS NULL THEN NOT (
    `key0`
  ) IS NULL ELSE FALSE END;
