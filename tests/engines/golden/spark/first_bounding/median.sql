-- SELECT dept, MEDIAN(price) AS m FROM people GROUP BY dept
WITH kept AS (
  SELECT /*+ REPARTITION(`unit`) */
    `source`.`uid` AS `unit`,
    `source`.`dept` AS `key0`,
    (
      (
        CASE
          WHEN NOT CAST(`source`.`price` AS DOUBLE) = CAST('NaN' AS DOUBLE)
          THEN CAST(FLOOR(
            LEAST(
              GREATEST(CAST(`source`.`price` AS DOUBLE), CAST('0.0' AS DOUBLE)),
              CAST('1.0' AS DOUBLE)
            ) * CAST('1048576.0' AS DOUBLE) + CAST('0.5' AS DOUBLE)
          ) AS BIGINT)
        END * 1 - 0
      ) DIV 2053 + 0
    ) AS `cell`
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
), cells AS (
  SELECT
    `unit`,
    `key0`,
    `cell`,
    COUNT(*) AS `rows`
  FROM kept
  GROUP BY
    `unit`,
    `key0`,
    `cell`
), ranked AS (
  SELECT
    *,
    SUM(CASE WHEN `cell` IS NULL THEN 0 ELSE `rows` END) OVER (
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
            WHEN `cell` IS NULL
            THEN '-'
            ELSE CONCAT(CAST(LENGTH(CAST(`cell` AS STRING)) AS STRING), ':', CAST(`cell` AS STRING))
          END
        )
      ) NULLS LAST, `key0` NULLS LAST, `cell` NULLS LAST
      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS `running`
  FROM cells
)
SELECT
  CAST(LEAST(
    GREATEST(
      COALESCE(SUM(LEAST(`rows`, GREATEST(10 - (
        `running` - `rows`
      ), 0))), 0),
      (
        -9223372036854775807
      )
    ),
    9223372036854775807
  ) AS BIGINT) AS `total0`,
  `cell`,
  `key0`
FROM ranked
WHERE
  NOT `cell` IS NULL
GROUP BY
  `cell`,
  `key0`;
