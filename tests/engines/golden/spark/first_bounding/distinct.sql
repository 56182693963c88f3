-- SELECT code, COUNT(DISTINCT city) AS c, COUNT(*) AS n FROM people GROUP BY code
WITH kept AS (
  SELECT /*+ REPARTITION(`unit`) */
    `source`.`uid` AS `unit`,
    `source`.`code` AS `key0`,
    `source`.`city` AS `distinct0`
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
      CAST(`at` AS TIMESTAMP_NTZ) AS `at`,
      `code`
    FROM `people`
  ) AS `source`
  WHERE
    NOT `source`.`uid` IS NULL
    AND (
      `source`.`code` IN ('000', '001', '002', '003', 'b\'s', 'C,', 'd', '\\', 'e')
      OR `source`.`code` IS NULL
    )
), values0 AS (
  SELECT
    `unit`,
    `key0`,
    `distinct0`
  FROM kept
  GROUP BY
    `unit`,
    `key0`,
    `distinct0`
), ordered0 AS (
  SELECT
    *,
    SUM(CASE WHEN `distinct0` IS NULL THEN 0 ELSE 1 END) OVER (
      PARTITION BY `unit`, `key0`
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
            WHEN `distinct0` IS NULL
            THEN '-'
            ELSE CONCAT(
              CAST(LENGTH(CAST(`distinct0` AS STRING)) AS STRING),
              ':',
              CAST(`distinct0` AS STRING)
            )
          END
        )
      ) NULLS LAST, `key0` NULLS LAST, `distinct0` NULLS LAST
      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS `running`,
    DENSE_RANK() OVER (
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
          END
        )
      ) NULLS LAST, `key0` NULLS LAST
    ) AS `rank`
  FROM values0
), pairs AS (
  SELECT
    `unit`,
    `key0`,
    COUNT(*) AS `rows`
  FROM kept
  GROUP BY
    `unit`,
    `key0`
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
          END
        )
      ) NULLS LAST, `key0` NULLS LAST
    ) AS `rank`
  FROM pairs
)
SELECT
  COALESCE(MAX(`total0`), 0) AS `total0`,
  COALESCE(MAX(`total1`), 0) AS `total1`,
  `key0`
FROM (
  SELECT
    CAST(NULL AS BIGINT) AS `total0`,
    CAST(LEAST(
      GREATEST(COALESCE(SUM(LEAST(`rows`, 10)), 0), (
        -9223372036854775807
      )),
      9223372036854775807
    ) AS BIGINT) AS `total1`,
    `key0`
  FROM ranked
  WHERE
    `rank` <= 3
  GROUP BY
    `key0`
  UNION ALL
  SELECT
    COUNT(DISTINCT `distinct0`) AS `total0`,
    CAST(NULL AS BIGINT) AS `total1`,
    `key0`
  FROM ordered0
  WHERE
    `running` <= 10 AND `rank` <= 3
  GROUP BY
    `key0`
) AS united
GROUP BY
  `key0`;
