-- SELECT HISTOGRAM(age, 0, 18, 65, 120) AS h FROM people
WITH kept AS (
  SELECT
    `source`.`uid` AS `unit`,
    CASE
      WHEN (
        `source`.`age` >= 0
      )
      THEN CASE
        WHEN (
          `source`.`age` < 18
        )
        THEN CAST(0 AS BIGINT)
        WHEN (
          `source`.`age` < 65
        )
        THEN CAST(1 AS BIGINT)
        WHEN (
          `source`.`age` <= 120
        )
        THEN CAST(2 AS BIGINT)
        ELSE NULL
      END
      ELSE NULL
    END AS `cell`
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
  CAST(LEAST(GREATEST(COALESCE(SUM(1), 0), (
    -9223372036854775807
  )), 9223372036854775807) AS BIGINT) AS `total0`,
  `cell`
FROM kept
WHERE
  NOT `cell` IS NULL
GROUP BY
  `cell`;
