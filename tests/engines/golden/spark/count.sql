-- SELECT COUNT(*) AS n FROM people
WITH kept AS (
  SELECT
    `source`.`uid` AS `unit`
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
), pairs AS (
  SELECT
    `unit`,
    COUNT(*) AS `rows`
  FROM kept
  GROUP BY
    `unit`
)
SELECT
  CAST(LEAST(
    GREATEST(COALESCE(SUM(LEAST(`rows`, 10)), 0), (
      -9223372036854775807
    )),
    9223372036854775807
  ) AS BIGINT) AS `total0`
FROM pairs;
