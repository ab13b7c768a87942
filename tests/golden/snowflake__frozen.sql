-- shop.orders: the latest cell of every column of every key (cdc-views, raw layout 1)
-- grain: one row per (id)
-- rules: C2 picks each winner, C4 and D1 hide expired and deleted ones, W2 decides which rows exist (docs/semantics.md)
-- strategy aggregate, as asked for
CREATE OR REPLACE VIEW "analytics"."orders" AS
SELECT
  "_view_id" AS "id",
  "tags" AS "tags",
  "home" AS "home"
FROM (
  WITH "row_facts" AS (
    /* one row per row or partition fact */
    SELECT
      "id",
      "_live",
      CAST(GET("_deleted", 'written') AS DECIMAL(38, 0)) AS "_deleted",
      "tags",
      "home"
    FROM raw_orders AS "_raw"
    WHERE
      "_kind" IN ('row', 'partition')
  ), "latest_rows" AS (
    /* one row per row key */
    SELECT
      "id",
      GET(
        ARRAY_AGG(
          IFF(
            CAST(GET("_live", 'written') AS DECIMAL(38, 0)) IS NOT NULL,
            OBJECT_CONSTRUCT_KEEP_NULL('written', CAST(GET("_live", 'written') AS DECIMAL(38, 0)), 'rank', CAST(GET("_live", 'rank') AS BIGINT)),
            NULL
          )
        ) WITHIN GROUP (ORDER BY
          CAST(GET("_live", 'written') AS DECIMAL(38, 0)) DESC NULLS LAST,
          CAST(GET("_live", 'rank') AS BIGINT) DESC NULLS LAST),
        0
      ) AS "_live",
      GET(
        ARRAY_AGG(
          IFF(
            CAST(GET("tags", 'written') AS DECIMAL(38, 0)) IS NOT NULL,
            OBJECT_CONSTRUCT_KEEP_NULL(
              'written',
              CAST(GET("tags", 'written') AS DECIMAL(38, 0)),
              'rank',
              CAST(GET("tags", 'rank') AS BIGINT),
              'bytes',
              CAST(GET("tags", 'bytes') AS VARCHAR),
              'value',
              GET("tags", 'value')
            ),
            NULL
          )
        ) WITHIN GROUP (ORDER BY
          CAST(GET("tags", 'written') AS DECIMAL(38, 0)) DESC NULLS LAST,
          CAST(GET("tags", 'rank') AS BIGINT) DESC NULLS LAST,
          CAST(GET("tags", 'bytes') AS VARCHAR) DESC NULLS LAST),
        0
      ) AS "tags",
      GET(
        ARRAY_AGG(
          IFF(
            CAST(GET("home", 'written') AS DECIMAL(38, 0)) IS NOT NULL,
            OBJECT_CONSTRUCT_KEEP_NULL(
              'written',
              CAST(GET("home", 'written') AS DECIMAL(38, 0)),
              'rank',
              CAST(GET("home", 'rank') AS BIGINT),
              'bytes',
              CAST(GET("home", 'bytes') AS VARCHAR),
              'value',
              GET("home", 'value')
            ),
            NULL
          )
        ) WITHIN GROUP (ORDER BY
          CAST(GET("home", 'written') AS DECIMAL(38, 0)) DESC NULLS LAST,
          CAST(GET("home", 'rank') AS BIGINT) DESC NULLS LAST,
          CAST(GET("home", 'bytes') AS VARCHAR) DESC NULLS LAST),
        0
      ) AS "home",
      MAX("_deleted") AS "_deleted"
    FROM "row_facts"
    GROUP BY
      "id"
  ), "covered_rows" AS (
    /* one row per row key */
    SELECT
      "id",
      "_live",
      "tags",
      "home",
      "_deleted" AS "_scope"
    FROM "latest_rows"
  ), "judged_regular_cells" AS (
    /* one row per row key */
    SELECT
      "id",
      "_live",
      "tags",
      "home",
      "_scope",
      (
        "_scope" IS NULL OR CAST(GET("tags", 'written') AS DECIMAL(38, 0)) > "_scope"
      )
      AND (
        CAST(GET("tags", 'rank') AS BIGINT) < -9223372036854775806
        OR (
          CAST(GET("tags", 'rank') AS BIGINT) < 0
          AND CAST(GET("tags", 'rank') AS BIGINT) >= (
            (
              (
                DATE_PART('EPOCH_SECOND', CURRENT_TIMESTAMP()) + 1
              ) * 2147483648
            ) + (
              -9223372036854775807 - 1
            )
          )
        )
      ) AS "_shows_tags",
      (
        "_scope" IS NULL OR CAST(GET("home", 'written') AS DECIMAL(38, 0)) > "_scope"
      )
      AND (
        CAST(GET("home", 'rank') AS BIGINT) < -9223372036854775806
        OR (
          CAST(GET("home", 'rank') AS BIGINT) < 0
          AND CAST(GET("home", 'rank') AS BIGINT) >= (
            (
              (
                DATE_PART('EPOCH_SECOND', CURRENT_TIMESTAMP()) + 1
              ) * 2147483648
            ) + (
              -9223372036854775807 - 1
            )
          )
        )
      ) AS "_shows_home"
    FROM "covered_rows"
  ), "visible_rows" AS (
    /* one row per visible row */
    SELECT
      "id" AS "_view_id",
      CASE WHEN "_shows_tags" THEN GET("tags", 'value') END AS "tags",
      CASE WHEN "_shows_home" THEN GET("home", 'value') END AS "home"
    FROM "judged_regular_cells"
    WHERE
      (
        (
          "_scope" IS NULL OR CAST(GET("_live", 'written') AS DECIMAL(38, 0)) > "_scope"
        )
        AND (
          CAST(GET("_live", 'rank') AS BIGINT) < -9223372036854775806
          OR (
            CAST(GET("_live", 'rank') AS BIGINT) < 0
            AND CAST(GET("_live", 'rank') AS BIGINT) >= (
              (
                (
                  DATE_PART('EPOCH_SECOND', CURRENT_TIMESTAMP()) + 1
                ) * 2147483648
              ) + (
                -9223372036854775807 - 1
              )
            )
          )
        )
      )
      OR "_shows_tags"
      OR "_shows_home"
  )
  /* one row per visible row */
  SELECT
    "_view_id",
    "tags",
    "home"
  FROM "visible_rows"
) AS "_merged"
