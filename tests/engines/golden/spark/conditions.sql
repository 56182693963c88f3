-- SELECT COUNT(*) AS n FROM people WHERE (dept = 'b''s' OR dept IS NULL) AND at >= '2024-01-01 12:00:00' AND NOT day = '2024-02-29' AND ok AND pay IN (0.1, 2) AND age * 2 < points AND CASE WHEN ok THEN age ELSE 1 END > 3
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
    AND (
      (
        (
          `source`.`dept` = 'b\'s'
        ) OR (
          (
            `source`.`dept`
          ) IS NULL
        )
      )
      AND (
        `source`.`at` >= CAST('2024-01-01 12:00:00' AS TIMESTAMP_NTZ)
      )
      AND NOT (
        `source`.`day` = CAST('2024-02-29' AS DATE)
      )
      AND (
        `source`.`ok` = TRUE
      )
      AND (
        (
          CASE
            WHEN CAST(`source`.`pay` AS DOUBLE) = CAST('NaN' AS DOUBLE)
            THEN NULL
            ELSE CAST(`source`.`pay` AS DOUBLE)
          END
        ) IN (CAST('0.1' AS DOUBLE), CAST('2.0' AS DOUBLE))
      )
      AND (
        (
          CASE
            WHEN `source`.`age` IS NULL
            THEN NULL
            ELSE CAST(LEAST(GREATEST(`source`.`age`, 0), 120) AS BIGINT)
          END * CAST(2 AS BIGINT)
        ) < CASE
          WHEN `source`.`points` IS NULL
          THEN NULL
          ELSE CAST(LEAST(GREATEST(`source`.`points`, 0), 1099511627776) AS BIGINT)
        END
      )
      AND (
        CASE
          WHEN (
            `source`.`ok` = TRUE
          )
          THEN CASE
            WHEN `source`.`age` IS NULL
            THEN NULL
            ELSE CAST(LEAST(GREATEST(`source`.`age`, 0), 120) AS BIGINT)
          END
          ELSE CAST(1 AS BIGINT)
        END > CAST(3 AS BIGINT)
      )
    )
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
