-- SELECT cities.region, COUNT(*) AS n FROM people LEFT JOIN cities USING (city) GROUP BY cities.region
WITH kept AS (
  SELECT
    `source`.`uid` AS `unit`,
    `source`.`cities.region` AS `key0`
  FROM (
    SELECT
      `own`.`uid` AS `uid`,
      `own`.`dept` AS `dept`,
      `own`.`city` AS `city`,
      `own`.`age` AS `age`,
      `own`.`pay` AS `pay`,
      `own`.`price` AS `price`,
      `own`.`points` AS `points`,
      `own`.`ok` AS `ok`,
      `own`.`day` AS `day`,
      `own`.`at` AS `at`,
      `lookup0`.`city` AS `cities.city`,
      `lookup0`.`region` AS `cities.region`
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
    ) AS `own`
    LEFT JOIN `copy of cities` AS `lookup0`
      ON `own`.`city` = `lookup0`.`city`
  ) AS `source`
  WHERE
    NOT `source`.`uid` IS NULL
    AND (
      `source`.`cities.region` IN ('n', 's') OR `source`.`cities.region` IS NULL
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
  `key0`
FROM pairs
GROUP BY
  `key0`;
