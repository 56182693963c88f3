-- SELECT dept, MEDIAN(price) AS m FROM people GROUP BY dept
WITH kept AS (
  SELECT /*+ REPARTITION(`unit`) */
    `source`.`uid` AS `unit`,
    CASE
      WHEN (
        `source`.`dept`
      ) IS NULL
      THEN CAST(100132884316162 AS BIGINT)
      WHEN `source`.`dept` = 'a'
      THEN CAST(1974432702660608 AS BIGINT)
      WHEN `source`.`dept` = 'b\'s'
      THEN CAST(789904640442369 AS BIGINT)
    END AS `key0`,
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
    COUNT(*) AS `rows`,
    (
      SHIFTRIGHT(`key0`, 20)
    ) AS `hash_key0`,
    CASE
      WHEN `cell` IS NULL
      THEN 2364390
      ELSE (
        843733358 * CAST(`cell` % 2147483579 AS BIGINT) + 472315391 * CAST(`cell` % 2147483647 AS BIGINT) + 3458764515777522790
      ) % 2147483579
    END AS `hash_cell`
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
      ORDER BY (
        (
          (
            `mixed_value` * `mixed_value`
          ) % 2147483579
        ) * `mixed_value`
      ) % 2147483579 NULLS LAST, `key0` NULLS LAST, `cell` NULLS LAST
      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS `running`
  FROM (
    SELECT
      *,
      (
        CAST(CONV(SUBSTRING(MD5(CONCAT('8:discreet unit ', CAST(`unit` AS STRING))), 1, 15), 16, 10) AS BIGINT) % 2147483579 + (
          (
            (
              `fold1` * `fold1`
            ) % 2147483579
          ) * `fold1`
        ) % 2147483579 + 3458764514357408252
      ) % 2147483579 AS `mixed_value`
    FROM (
      SELECT
        *,
        (
          414694625 * `hash_key0` + (
            (
              (
                `hash_cell` * `hash_cell`
              ) % 2147483579
            ) * `hash_cell`
          ) % 2147483579
        ) % 2147483579 AS `fold1`
      FROM cells
    ) AS level0
  ) AS level1
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
