-- SELECT day, SUM(pay) AS s, SUM(points) AS p, COUNT(price) AS c FROM people GROUP BY day
WITH kept AS (
  SELECT /*+ REPARTITION(`unit`) */
    `source`.`uid` AS `unit`,
    CASE
      WHEN `source`.`day` BETWEEN CAST('0001-01-01' AS DATE) AND CAST('9999-12-31' AS DATE)
      THEN `source`.`day`
    END AS `key0`,
    CASE
      WHEN NOT CAST(`source`.`pay` AS DOUBLE) = CAST('NaN' AS DOUBLE)
      THEN CAST(FLOOR(
        LEAST(
          GREATEST(CAST(`source`.`pay` AS DOUBLE), CAST('-1.0' AS DOUBLE)),
          CAST('1000000000.0' AS DOUBLE)
        ) * CAST('0.001953125' AS DOUBLE) + CAST('0.5' AS DOUBLE)
      ) AS BIGINT)
    END AS `value0`,
    CASE
      WHEN `source`.`points` IS NULL
      THEN NULL
      ELSE CAST(LEAST(GREATEST(`source`.`points`, 0), 1099511627776) AS BIGINT)
    END AS `value1`,
    CASE
      WHEN (
        CASE
          WHEN CAST(`source`.`price` AS DOUBLE) = CAST('NaN' AS DOUBLE)
          THEN NULL
          ELSE CAST(`source`.`price` AS DOUBLE)
        END
      ) IS NULL
      THEN NULL
      ELSE CAST(0 AS BIGINT)
    END AS `value2`
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
    `key0`,
    COUNT(`value0`) AS `value0_n`,
    COUNT(`value1`) AS `value1_n`,
    COUNT(`value2`) AS `value2_n`,
    SUM(`value0`) AS `sum0`,
    SUM(CAST(`value1` AS DECIMAL(28, 0))) AS `sum1`
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
  CAST(LEAST(
    GREATEST(
      COALESCE(
        SUM(
          CAST(CASE
            WHEN `value0_n` > 10
            THEN (
              CAST(LEAST(GREATEST(`sum0`, (
                -461168601842738790
              )), 461168601842738790) AS BIGINT) * 10
            ) DIV `value0_n`
            ELSE CAST(`sum0` AS BIGINT)
          END AS DECIMAL(28, 0))
        ),
        0
      ),
      (
        -9223372036854775807
      )
    ),
    9223372036854775807
  ) AS BIGINT) AS `total0`,
  CAST(LEAST(
    GREATEST(
      COALESCE(
        SUM(
          CAST(CASE
            WHEN `value1_n` > 10
            THEN (
              CAST(LEAST(GREATEST(`sum1`, (
                -461168601842738790
              )), 461168601842738790) AS BIGINT) * 10
            ) DIV `value1_n`
            ELSE CAST(`sum1` AS BIGINT)
          END AS DECIMAL(28, 0))
        ),
        0
      ),
      (
        -9223372036854775807
      )
    ),
    9223372036854775807
  ) AS BIGINT) AS `total1`,
  CAST(LEAST(
    GREATEST(COALESCE(SUM(LEAST(`value2_n`, 10)), 0), (
      -9223372036854775807
    )),
    9223372036854775807
  ) AS BIGINT) AS `total2`,
  CAST(LEAST(GREATEST(COALESCE(SUM(1), 0), (
    -9223372036854775807
  )), 9223372036854775807) AS BIGINT) AS `total3`,
  `key0`
FROM ranked
WHERE
  `rank` <= 3
GROUP BY
  `key0`;
