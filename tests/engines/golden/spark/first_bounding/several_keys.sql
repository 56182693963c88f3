-- SELECT dept, city, day, ok, COUNT(*) AS n FROM people WHERE age > 1 GROUP BY dept, city, day, ok
WITH kept AS (
  SELECT /*+ REPARTITION(`unit`) */
    `source`.`uid` AS `unit`,
    `source`.`dept` AS `key0`,
    `source`.`city` AS `key1`,
    CASE
      WHEN `source`.`day` BETWEEN CAST('0001-01-01' AS DATE) AND CAST('9999-12-31' AS DATE)
      THEN `source`.`day`
    END AS `key2`,
    `source`.`ok` AS `key3`
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
    (
      NOT `source`.`uid` IS NULL AND (
        `source`.`age` > 1
      )
    )
    AND (
      `source`.`dept` IN ('a', 'b\'s') OR `source`.`dept` IS NULL
    )
    AND (
      `source`.`ok` IN (FALSE, TRUE)
    )
), pairs AS (
  SELECT
    `unit`,
    `key0`,
    `key1`,
    `key2`,
    `key3`,
    COUNT(*) AS `rows`
  FROM kept
  GROUP BY
    `unit`,
    `key0`,
    `key1`,
    `key2`,
    `key3`
), ranked AS (
  SELECT
    *,
    ROW_NUMBER() OVER (
      PARTITION BY `unit`
      ORDER BY MD5(
        CONCAT(
          '8:discreet',
          CAST(LENGTH(CAST(`unit` AS STRING)) AS STRING),
          ':',
          CAST(`unit` AS STRING),
          CASE
            WHEN `key0` IS NULL
            THEN '-'
            ELSE CONCAT(CAST(LENGTH(CAST(`key0` AS STRING)) AS STRING), ':', CAST(`key0` AS STRING))
          END,
          CASE
            WHEN `key1` IS NULL
            THEN '-'
            ELSE CONCAT(CAST(LENGTH(CAST(`key1` AS STRING)) AS STRING), ':', CAST(`key1` AS STRING))
          END,
          CASE
            WHEN `key2` IS NULL
            THEN '-'
            ELSE CONCAT(CAST(LENGTH(CAST(`key2` AS STRING)) AS STRING), ':', CAST(`key2` AS STRING))
          END,
          CASE
            WHEN `key3` IS NULL
            THEN '-'
            ELSE CONCAT(CAST(LENGTH(CAST(`key3` AS STRING)) AS STRING), ':', CAST(`key3` AS STRING))
          END
        )
      ) NULLS LAST, `key0` NULLS LAST, `key1` NULLS LAST, `key2` NULLS LAST, `key3` NULLS LAST
    ) AS `rank`
  FROM pairs
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
  `key0`,
  `key1`,
  `key2`,
  `key3`
FROM ranked
WHERE
  `rank` <= 3
GROUP BY
  `key0`,
  `key1`,
  `key2`,
  `key3`;
