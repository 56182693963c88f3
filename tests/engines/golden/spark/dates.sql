-- SELECT YEAR(day) AS y, DATE_TRUNC('week', at) AS w, SUM(ISODOW(at)) AS s, SUM(HOUR(at)) AS h FROM people WHERE dept LIKE 'b_''%' AND at >= DATE '2024-01-01' GROUP BY YEAR(day), DATE_TRUNC('week', at)
WITH kept AS (
  SELECT
    `source`.`uid` AS `unit`,
    CAST(EXTRACT(YEAR FROM CASE
      WHEN NOT `source`.`day` IS NULL
      THEN LEAST(GREATEST(`source`.`day`, CAST('0001-01-01' AS DATE)), CAST('9999-12-31' AS DATE))
    END) AS BIGINT) AS `key0`,
    TRUNC(
      CAST(CASE
        WHEN NOT `source`.`at` IS NULL
        THEN LEAST(
          GREATEST(`source`.`at`, CAST('0001-01-01 00:00:00' AS TIMESTAMP_NTZ)),
          CAST('9999-12-31 23:59:59.999999' AS TIMESTAMP_NTZ)
        )
      END AS DATE),
      'WEEK'
    ) AS `key1`,
    CAST(EXTRACT(DAYOFWEEK_ISO FROM CAST(CASE
      WHEN NOT `source`.`at` IS NULL
      THEN LEAST(
        GREATEST(`source`.`at`, CAST('0001-01-01 00:00:00' AS TIMESTAMP_NTZ)),
        CAST('9999-12-31 23:59:59.999999' AS TIMESTAMP_NTZ)
      )
    END AS DATE)) AS BIGINT) AS `value0`,
    CAST(EXTRACT(HOUR FROM CASE
      WHEN NOT `source`.`at` IS NULL
      THEN LEAST(
        GREATEST(`source`.`at`, CAST('0001-01-01 00:00:00' AS TIMESTAMP_NTZ)),
        CAST('9999-12-31 23:59:59.999999' AS TIMESTAMP_NTZ)
      )
    END) AS BIGINT) AS `value1`
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
      (
        `source`.`dept` LIKE 'b_\'%'
      )
      AND (
        `source`.`at` >= CAST('2024-01-01 00:00:00' AS TIMESTAMP_NTZ)
      )
    )
)
SELECT
  CAST(LEAST(
    GREATEST(COALESCE(SUM(`value0`), 0), (
      -9223372036854775807
    )),
    9223372036854775807
  ) AS BIGINT) AS `total0`,
  CAST(LEAST(
    GREATEST(COALESCE(SUM(`value1`), 0), (
      -9223372036854775807
    )),
    9223372036854775807
  ) AS BIGINT) AS `total1`,
  COUNT(*) AS `total2`,
  `key0`,
  `key1`
FROM kept
GROUP BY
  `key0`,
  `key1`;
