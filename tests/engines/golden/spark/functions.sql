-- SELECT SUM(age / 2) AS a, SUM(pay / 12) AS b, SUM(ROUND(pay, 1)) AS c, SUM(CEIL(price)) AS d, SUM(ABS(age)) AS e, SUM(COALESCE(age, points, 0)) AS f, SUM(GREATEST(age, 3)) AS g, SUM(NULLIF(points, 7)) AS h FROM people
WITH kept AS (
  SELECT
    `source`.`uid` AS `unit`,
    (
      CASE
        WHEN `source`.`age` IS NULL
        THEN NULL
        ELSE CAST(LEAST(GREATEST(`source`.`age`, 0), 120) AS BIGINT)
      END * 1
    ) AS `value0`,
    (
      (
        CASE
          WHEN NOT CAST(`source`.`pay` AS DOUBLE) = CAST('NaN' AS DOUBLE)
          THEN CAST(FLOOR(
            LEAST(
              GREATEST(CAST(`source`.`pay` AS DOUBLE), CAST('-1.0' AS DOUBLE)),
              CAST('1000000000.0' AS DOUBLE)
            ) * CAST('0.001953125' AS DOUBLE) + CAST('0.5' AS DOUBLE)
          ) AS BIGINT)
        END * 32 - (
          -34
        )
      ) DIV 3 + (
        -11
      )
    ) AS `value1`,
    CASE
      WHEN NOT CAST(`source`.`pay` AS DOUBLE) = CAST('NaN' AS DOUBLE)
      THEN CAST(FLOOR(
        LEAST(
          GREATEST(CAST(`source`.`pay` AS DOUBLE), CAST('-1.0' AS DOUBLE)),
          CAST('1000000000.0' AS DOUBLE)
        ) * CAST('0.001953125' AS DOUBLE) + CAST('0.5' AS DOUBLE)
      ) AS BIGINT)
    END AS `value2`,
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
        END * 1 - (
          -1048575
        )
      ) DIV 1048576 + 0
    ) AS `value3`,
    ABS(
      CASE
        WHEN `source`.`age` IS NULL
        THEN NULL
        ELSE CAST(LEAST(GREATEST(`source`.`age`, 0), 120) AS BIGINT)
      END
    ) AS `value4`,
    COALESCE(
      CASE
        WHEN `source`.`age` IS NULL
        THEN NULL
        ELSE CAST(LEAST(GREATEST(`source`.`age`, 0), 120) AS BIGINT)
      END,
      CASE
        WHEN `source`.`points` IS NULL
        THEN NULL
        ELSE CAST(LEAST(GREATEST(`source`.`points`, 0), 1099511627776) AS BIGINT)
      END,
      CAST(0 AS BIGINT)
    ) AS `value5`,
    GREATEST(
      CASE
        WHEN `source`.`age` IS NULL
        THEN NULL
        ELSE CAST(LEAST(GREATEST(`source`.`age`, 0), 120) AS BIGINT)
      END,
      CAST(3 AS BIGINT)
    ) AS `value6`,
    CASE
      WHEN `source`.`points` = 7
      THEN NULL
      ELSE CASE
        WHEN `source`.`points` IS NULL
        THEN NULL
        ELSE CAST(LEAST(GREATEST(`source`.`points`, 0), 1099511627776) AS BIGINT)
      END
    END AS `value7`
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
  CAST(LEAST(
    GREATEST(COALESCE(SUM(`value0`), 0), (
      -9223372036854775807
    )),
    9223372036854775807
  ) AS BIGINT) AS `total0`,
  CAST(LEAST(
    GREATEST(COALESCE(SUM(CAST(`value1` AS DECIMAL(28, 0))), 0), (
      -9223372036854775807
    )),
    9223372036854775807
  ) AS BIGINT) AS `total1`,
  CAST(LEAST(
    GREATEST(COALESCE(SUM(`value2`), 0), (
      -9223372036854775807
    )),
    9223372036854775807
  ) AS BIGINT) AS `total2`,
  CAST(LEAST(
    GREATEST(COALESCE(SUM(`value3`), 0), (
      -9223372036854775807
    )),
    9223372036854775807
  ) AS BIGINT) AS `total3`,
  CAST(LEAST(
    GREATEST(COALESCE(SUM(`value4`), 0), (
      -9223372036854775807
    )),
    9223372036854775807
  ) AS BIGINT) AS `total4`,
  CAST(LEAST(
    GREATEST(COALESCE(SUM(CAST(`value5` AS DECIMAL(28, 0))), 0), (
      -9223372036854775807
    )),
    9223372036854775807
  ) AS BIGINT) AS `total5`,
  CAST(LEAST(
    GREATEST(COALESCE(SUM(`value6`), 0), (
      -9223372036854775807
    )),
    9223372036854775807
  ) AS BIGINT) AS `total6`,
  CAST(LEAST(
    GREATEST(COALESCE(SUM(CAST(`value7` AS DECIMAL(28, 0))), 0), (
      -9223372036854775807
    )),
    9223372036854775807
  ) AS BIGINT) AS `total7`
FROM kept;
