-- duckdb
SELECT
  "cells"."cell",
  COUNT(*)
FROM (
  SELECT
    CASE
      WHEN "checked"."kind" < 0
      THEN "checked"."kind"
      ELSE (
        (
          "checked"."j"
        ) * CAST(2 AS BIGINT)
      ) + "checked"."b"
    END AS "cell"
  FROM (
    SELECT
      CASE
        WHEN "numbered"."kind" = 0 AND "numbered"."copy" > 1
        THEN (
          -5
        )
        ELSE "numbered"."kind"
      END AS "kind",
      "numbered"."j",
      "numbered"."b"
    FROM (
      SELECT
        "classified"."kind",
        CASE
          WHEN "classified"."kind" = 0
          THEN CAST("classified"."j" AS BIGINT)
          ELSE CAST(0 AS BIGINT)
        END AS "j",
        CASE
          WHEN "classified"."kind" = 0
          THEN CAST("classified"."b" AS BIGINT)
          ELSE CAST(0 AS BIGINT)
        END AS "b",
        ROW_NUMBER() OVER (
          PARTITION BY "classified"."kind", "classified"."nonce"
          ORDER BY "classified"."j" ASC, "classified"."b" ASC
        ) AS "copy"
      FROM (
        SELECT
          CASE
            WHEN "source"."collection" IS NULL OR "source"."collection" <> '0123'
            THEN (
              -1
            )
            WHEN "source"."version" IS NULL OR "source"."version" <> 2
            THEN (
              -2
            )
            WHEN "source"."j" IS NULL
            OR "source"."b" IS NULL
            OR ISNAN("source"."b")
            OR "source"."nonce" IS NULL
            THEN (
              -3
            )
            WHEN NOT (
              "source"."j" >= 0
              AND "source"."j" < CAST(16 AS BIGINT)
              AND "source"."b" >= 0
              AND "source"."b" < CAST(2 AS BIGINT)
              AND "source"."b" = FLOOR("source"."b")
            )
            THEN (
              -4
            )
            ELSE 0
          END AS "kind",
          "source"."j" AS "j",
          "source"."b" AS "b",
          "source"."nonce" AS "nonce"
        FROM reports AS "source"
      ) AS classified
    ) AS numbered
  ) AS checked
) AS cells
GROUP BY
  "cells"."cell";
SELECT
  "source"."j",
  "source"."b",
  COUNT(*)
FROM reports AS "source"
WHERE
  "source"."collection" = '0123'
  AND "source"."version" = 2
  AND (
    "source"."j" >= 0
    AND "source"."j" < CAST(16 AS BIGINT)
    AND "source"."b" >= 0
    AND "source"."b" < CAST(2 AS BIGINT)
    AND "source"."b" = FLOOR("source"."b")
  )
GROUP BY
  "source"."j",
  "source"."b";
SELECT
  "classified"."kind",
  COUNT(*)
FROM (
  SELECT
    CASE
      WHEN "source"."collection" IS NULL OR "source"."collection" <> '0123'
      THEN (
        -1
      )
      WHEN "source"."version" IS NULL OR "source"."version" <> 2
      THEN (
        -2
      )
      WHEN "source"."j" IS NULL
      OR "source"."b" IS NULL
      OR ISNAN("source"."b")
      OR "source"."nonce" IS NULL
      THEN (
        -3
      )
      WHEN NOT (
        "source"."j" >= 0
        AND "source"."j" < CAST(16 AS BIGINT)
        AND "source"."b" >= 0
        AND "source"."b" < CAST(2 AS BIGINT)
        AND "source"."b" = FLOOR("source"."b")
      )
      THEN (
        -4
      )
      ELSE 0
    END AS "kind"
  FROM reports AS "source"
) AS classified
WHERE
  "classified"."kind" < 0
GROUP BY
  "classified"."kind";
SELECT
  "checked"."kind",
  COUNT(*),
  SUM((
    "checked"."w0"
  ) & CAST(1 AS BIGINT)) AS "sum0",
  SUM((
    "checked"."w0" >> 1
  ) & CAST(1 AS BIGINT)) AS "sum1"
FROM (
  SELECT
    "classified"."kind",
    CASE
      WHEN "classified"."kind" = 0
      THEN CAST("classified"."w0" AS BIGINT)
      ELSE CAST(0 AS BIGINT)
    END AS "w0"
  FROM (
    SELECT
      CASE
        WHEN "source"."w0" IS NULL
        THEN (
          -3
        )
        WHEN NOT (
          "source"."w0" >= 0 AND "source"."w0" < CAST(4 AS BIGINT)
        )
        THEN (
          -4
        )
        ELSE 0
      END AS "kind",
      "source"."w0" AS "w0"
    FROM reports AS "source"
  ) AS classified
) AS checked
GROUP BY
  "checked"."kind";
SELECT
  "cells"."cell",
  COUNT(*)
FROM (
  SELECT
    CASE WHEN "checked"."kind" < 0 THEN "checked"."kind" ELSE "checked"."y1" END AS "cell"
  FROM (
    SELECT
      "classified"."kind",
      CASE
        WHEN "classified"."kind" = 0
        THEN CAST("classified"."y0" AS BIGINT)
        ELSE CAST(0 AS BIGINT)
      END AS "y0",
      CASE
        WHEN "classified"."kind" = 0
        THEN CAST("classified"."y1" AS BIGINT)
        ELSE CAST(0 AS BIGINT)
      END AS "y1"
    FROM (
      SELECT
        CASE
          WHEN "source"."y0" IS NULL OR "source"."y1" IS NULL
          THEN (
            -3
          )
          WHEN NOT (
            "source"."y0" >= 0
            AND "source"."y0" < CAST(9 AS BIGINT)
            AND "source"."y1" >= 0
            AND "source"."y1" < CAST(9 AS BIGINT)
            AND "source"."y0" < "source"."y1"
          )
          THEN (
            -4
          )
          ELSE 0
        END AS "kind",
        "source"."y0" AS "y0",
        "source"."y1" AS "y1"
      FROM reports AS "source"
    ) AS classified
  ) AS checked
) AS cells
GROUP BY
  "cells"."cell";

-- postgres
SELECT
  "cells"."cell",
  COUNT(*)
FROM (
  SELECT
    CASE
      WHEN "checked"."kind" < 0
      THEN "checked"."kind"
      ELSE (
        (
          "checked"."j"
        ) * CAST(2 AS BIGINT)
      ) + "checked"."b"
    END AS "cell"
  FROM (
    SELECT
      CASE
        WHEN "numbered"."kind" = 0 AND "numbered"."copy" > 1
        THEN (
          -5
        )
        ELSE "numbered"."kind"
      END AS "kind",
      "numbered"."j",
      "numbered"."b"
    FROM (
      SELECT
        "classified"."kind",
        CASE
          WHEN "classified"."kind" = 0
          THEN CAST("classified"."j" AS BIGINT)
          ELSE CAST(0 AS BIGINT)
        END AS "j",
        CASE
          WHEN "classified"."kind" = 0
          THEN CAST("classified"."b" AS BIGINT)
          ELSE CAST(0 AS BIGINT)
        END AS "b",
        ROW_NUMBER() OVER (
          PARTITION BY "classified"."kind", "classified"."nonce"
          ORDER BY "classified"."j" ASC, "classified"."b" ASC
        ) AS "copy"
      FROM (
        SELECT
          CASE
            WHEN "source"."collection" IS NULL OR "source"."collection" <> '0123'
            THEN (
              -1
            )
            WHEN "source"."version" IS NULL OR "source"."version" <> 2
            THEN (
              -2
            )
            WHEN "source"."j" IS NULL
            OR "source"."b" IS NULL
            OR "source"."b" = CAST('NaN' AS DOUBLE PRECISION)
            OR "source"."nonce" IS NULL
            THEN (
              -3
            )
            WHEN NOT (
              "source"."j" >= 0
              AND "source"."j" < CAST(16 AS BIGINT)
              AND "source"."b" >= 0
              AND "source"."b" < CAST(2 AS BIGINT)
              AND "source"."b" = FLOOR("source"."b")
            )
            THEN (
              -4
            )
            ELSE 0
          END AS "kind",
          "source"."j" AS "j",
          "source"."b" AS "b",
          "source"."nonce" AS "nonce"
        FROM reports AS "source"
      ) AS classified
    ) AS numbered
  ) AS checked
) AS cells
GROUP BY
  "cells"."cell";
SELECT
  "source"."j",
  "source"."b",
  COUNT(*)
FROM reports AS "source"
WHERE
  "source"."collection" = '0123'
  AND "source"."version" = 2
  AND (
    "source"."j" >= 0
    AND "source"."j" < CAST(16 AS BIGINT)
    AND "source"."b" >= 0
    AND "source"."b" < CAST(2 AS BIGINT)
    AND "source"."b" = FLOOR("source"."b")
  )
GROUP BY
  "source"."j",
  "source"."b";
SELECT
  "classified"."kind",
  COUNT(*)
FROM (
  SELECT
    CASE
      WHEN "source"."collection" IS NULL OR "source"."collection" <> '0123'
      THEN (
        -1
      )
      WHEN "source"."version" IS NULL OR "source"."version" <> 2
      THEN (
        -2
      )
      WHEN "source"."j" IS NULL
      OR "source"."b" IS NULL
      OR "source"."b" = CAST('NaN' AS DOUBLE PRECISION)
      OR "source"."nonce" IS NULL
      THEN (
        -3
      )
      WHEN NOT (
        "source"."j" >= 0
        AND "source"."j" < CAST(16 AS BIGINT)
        AND "source"."b" >= 0
        AND "source"."b" < CAST(2 AS BIGINT)
        AND "source"."b" = FLOOR("source"."b")
      )
      THEN (
        -4
      )
      ELSE 0
    END AS "kind"
  FROM reports AS "source"
) AS classified
WHERE
  "classified"."kind" < 0
GROUP BY
  "classified"."kind";
SELECT
  "checked"."kind",
  COUNT(*),
  SUM((
    "checked"."w0"
  ) & CAST(1 AS BIGINT)) AS "sum0",
  SUM((
    "checked"."w0" >> 1
  ) & CAST(1 AS BIGINT)) AS "sum1"
FROM (
  SELECT
    "classified"."kind",
    CASE
      WHEN "classified"."kind" = 0
      THEN CAST("classified"."w0" AS BIGINT)
      ELSE CAST(0 AS BIGINT)
    END AS "w0"
  FROM (
    SELECT
      CASE
        WHEN "source"."w0" IS NULL
        THEN (
          -3
        )
        WHEN NOT (
          "source"."w0" >= 0 AND "source"."w0" < CAST(4 AS BIGINT)
        )
        THEN (
          -4
        )
        ELSE 0
      END AS "kind",
      "source"."w0" AS "w0"
    FROM reports AS "source"
  ) AS classified
) AS checked
GROUP BY
  "checked"."kind";
SELECT
  "cells"."cell",
  COUNT(*)
FROM (
  SELECT
    CASE WHEN "checked"."kind" < 0 THEN "checked"."kind" ELSE "checked"."y1" END AS "cell"
  FROM (
    SELECT
      "classified"."kind",
      CASE
        WHEN "classified"."kind" = 0
        THEN CAST("classified"."y0" AS BIGINT)
        ELSE CAST(0 AS BIGINT)
      END AS "y0",
      CASE
        WHEN "classified"."kind" = 0
        THEN CAST("classified"."y1" AS BIGINT)
        ELSE CAST(0 AS BIGINT)
      END AS "y1"
    FROM (
      SELECT
        CASE
          WHEN "source"."y0" IS NULL OR "source"."y1" IS NULL
          THEN (
            -3
          )
          WHEN NOT (
            "source"."y0" >= 0
            AND "source"."y0" < CAST(9 AS BIGINT)
            AND "source"."y1" >= 0
            AND "source"."y1" < CAST(9 AS BIGINT)
            AND "source"."y0" < "source"."y1"
          )
          THEN (
            -4
          )
          ELSE 0
        END AS "kind",
        "source"."y0" AS "y0",
        "source"."y1" AS "y1"
      FROM reports AS "source"
    ) AS classified
  ) AS checked
) AS cells
GROUP BY
  "cells"."cell";

-- spark
SELECT
  `cells`.`cell`,
  COUNT(*)
FROM (
  SELECT
    CASE
      WHEN `checked`.`kind` < 0
      THEN `checked`.`kind`
      ELSE (
        (
          `checked`.`j`
        ) * CAST(2 AS BIGINT)
      ) + `checked`.`b`
    END AS `cell`
  FROM (
    SELECT
      CASE
        WHEN `numbered`.`kind` = 0 AND `numbered`.`copy` > 1
        THEN (
          -5
        )
        ELSE `numbered`.`kind`
      END AS `kind`,
      `numbered`.`j`,
      `numbered`.`b`
    FROM (
      SELECT
        `classified`.`kind`,
        CASE
          WHEN `classified`.`kind` = 0
          THEN CAST(`classified`.`j` AS BIGINT)
          ELSE CAST(0 AS BIGINT)
        END AS `j`,
        CASE
          WHEN `classified`.`kind` = 0
          THEN CAST(`classified`.`b` AS BIGINT)
          ELSE CAST(0 AS BIGINT)
        END AS `b`,
        ROW_NUMBER() OVER (
          PARTITION BY `classified`.`kind`, `classified`.`nonce`
          ORDER BY `classified`.`j` ASC NULLS LAST, `classified`.`b` ASC NULLS LAST
        ) AS `copy`
      FROM (
        SELECT
          CASE
            WHEN `source`.`collection` IS NULL OR `source`.`collection` <> '0123'
            THEN (
              -1
            )
            WHEN `source`.`version` IS NULL OR `source`.`version` <> 2
            THEN (
              -2
            )
            WHEN `source`.`j` IS NULL
            OR `source`.`b` IS NULL
            OR `source`.`b` = CAST('NaN' AS DOUBLE)
            OR `source`.`nonce` IS NULL
            THEN (
              -3
            )
            WHEN NOT (
              `source`.`j` >= 0
              AND `source`.`j` < CAST(16 AS BIGINT)
              AND `source`.`b` >= 0
              AND `source`.`b` < CAST(2 AS BIGINT)
              AND `source`.`b` = FLOOR(`source`.`b`)
            )
            THEN (
              -4
            )
            ELSE 0
          END AS `kind`,
          `source`.`j` AS `j`,
          `source`.`b` AS `b`,
          `source`.`nonce` AS `nonce`
        FROM reports AS `source`
      ) AS classified
    ) AS numbered
  ) AS checked
) AS cells
GROUP BY
  `cells`.`cell`;
SELECT
  `source`.`j`,
  `source`.`b`,
  COUNT(*)
FROM reports AS `source`
WHERE
  `source`.`collection` = '0123'
  AND `source`.`version` = 2
  AND (
    `source`.`j` >= 0
    AND `source`.`j` < CAST(16 AS BIGINT)
    AND `source`.`b` >= 0
    AND `source`.`b` < CAST(2 AS BIGINT)
    AND `source`.`b` = FLOOR(`source`.`b`)
  )
GROUP BY
  `source`.`j`,
  `source`.`b`;
SELECT
  `classified`.`kind`,
  COUNT(*)
FROM (
  SELECT
    CASE
      WHEN `source`.`collection` IS NULL OR `source`.`collection` <> '0123'
      THEN (
        -1
      )
      WHEN `source`.`version` IS NULL OR `source`.`version` <> 2
      THEN (
        -2
      )
      WHEN `source`.`j` IS NULL
      OR `source`.`b` IS NULL
      OR `source`.`b` = CAST('NaN' AS DOUBLE)
      OR `source`.`nonce` IS NULL
      THEN (
        -3
      )
      WHEN NOT (
        `source`.`j` >= 0
        AND `source`.`j` < CAST(16 AS BIGINT)
        AND `source`.`b` >= 0
        AND `source`.`b` < CAST(2 AS BIGINT)
        AND `source`.`b` = FLOOR(`source`.`b`)
      )
      THEN (
        -4
      )
      ELSE 0
    END AS `kind`
  FROM reports AS `source`
) AS classified
WHERE
  `classified`.`kind` < 0
GROUP BY
  `classified`.`kind`;
SELECT
  `checked`.`kind`,
  COUNT(*),
  SUM((
    `checked`.`w0`
  ) & CAST(1 AS BIGINT)) AS `sum0`,
  SUM((
    SHIFTRIGHT(`checked`.`w0`, 1)
  ) & CAST(1 AS BIGINT)) AS `sum1`
FROM (
  SELECT
    `classified`.`kind`,
    CASE
      WHEN `classified`.`kind` = 0
      THEN CAST(`classified`.`w0` AS BIGINT)
      ELSE CAST(0 AS BIGINT)
    END AS `w0`
  FROM (
    SELECT
      CASE
        WHEN `source`.`w0` IS NULL
        THEN (
          -3
        )
        WHEN NOT (
          `source`.`w0` >= 0 AND `source`.`w0` < CAST(4 AS BIGINT)
        )
        THEN (
          -4
        )
        ELSE 0
      END AS `kind`,
      `source`.`w0` AS `w0`
    FROM reports AS `source`
  ) AS classified
) AS checked
GROUP BY
  `checked`.`kind`;
SELECT
  `cells`.`cell`,
  COUNT(*)
FROM (
  SELECT
    CASE WHEN `checked`.`kind` < 0 THEN `checked`.`kind` ELSE `checked`.`y1` END AS `cell`
  FROM (
    SELECT
      `classified`.`kind`,
      CASE
        WHEN `classified`.`kind` = 0
        THEN CAST(`classified`.`y0` AS BIGINT)
        ELSE CAST(0 AS BIGINT)
      END AS `y0`,
      CASE
        WHEN `classified`.`kind` = 0
        THEN CAST(`classified`.`y1` AS BIGINT)
        ELSE CAST(0 AS BIGINT)
      END AS `y1`
    FROM (
      SELECT
        CASE
          WHEN `source`.`y0` IS NULL OR `source`.`y1` IS NULL
          THEN (
            -3
          )
          WHEN NOT (
            `source`.`y0` >= 0
            AND `source`.`y0` < CAST(9 AS BIGINT)
            AND `source`.`y1` >= 0
            AND `source`.`y1` < CAST(9 AS BIGINT)
            AND `source`.`y0` < `source`.`y1`
          )
          THEN (
            -4
          )
          ELSE 0
        END AS `kind`,
        `source`.`y0` AS `y0`,
        `source`.`y1` AS `y1`
      FROM reports AS `source`
    ) AS classified
  ) AS checked
) AS cells
GROUP BY
  `cells`.`cell`;
