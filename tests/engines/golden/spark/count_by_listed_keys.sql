-- SELECT dept, COUNT(*) AS n, COUNT(DISTINCT uid) AS u FROM people GROUP BY dept
WITH kept AS (
  SELECT
    `source`.`uid` AS `unit`,
    `source`.`dept` AS `key0`
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
    AND (
      `source`.`dept` IN ('a', 'b\'s') OR `source`.`dept` IS NULL
    )
), pairs AS (
  SELECT
    `unit`,
    `key0`,
    COUNT(*) AS `rows`
  FROM kept
  GROUP BY
    `unit`,
    `key0`
)
SELECT
  CAST(LEAST(
    GREATEST(COALESCE(SUM(LEAST(`rows`, 10)), 0), (
      -9223372036854775807
    )),
    9223372036854775807
  ) AS BIGINT) AS `total0`,
  CAST(LEAST(GREATEST(COALESCE(SUM(1), 0), (
    -9223372036854775807
  )), 9223372036854775807) AS BIGINT) AS `total1`,
  `key0`
FROM pairs
GROUP BY
  `key0`;
