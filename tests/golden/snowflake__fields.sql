-- shop.orders: the latest cell of every column of every key (cdc-views, raw layout 1)
-- grain: one row per (id)
-- rules: C2 picks each winner, C4 and D1 hide expired and deleted ones, W2 decides which rows exist (docs/semantics.md)
-- strategy aggregate, as asked for
CREATE OR REPLACE VIEW "analytics"."orders" AS
SELECT
  "_view_id" AS "id",
  "home" AS "home"
FROM (
  WITH "row_facts" AS (
    /* one row per row or partition fact */
    SELECT
      "id",
      "_live",
      CAST(GET("_deleted", 'written') AS DECIMAL(38, 0)) AS "_deleted",
      CAST(GET(GET("home", 'deletion'), 'written') AS DECIMAL(38, 0)) AS "_deletion_home",
      GET(GET("home", 'cells'), 'street') AS "_field_home_0",
      GET(GET("home", 'cells'), 'x__5aip_20_43ode') AS "_field_home_1"
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
            CAST(GET("_field_home_0", 'written') AS DECIMAL(38, 0)) IS NOT NULL,
            OBJECT_CONSTRUCT_KEEP_NULL(
              'written',
              CAST(GET("_field_home_0", 'written') AS DECIMAL(38, 0)),
              'rank',
              CAST(GET("_field_home_0", 'rank') AS BIGINT),
              'value',
              CAST(GET("_field_home_0", 'value') AS VARCHAR)
            ),
            NULL
          )
        ) WITHIN GROUP (ORDER BY
          CAST(GET("_field_home_0", 'written') AS DECIMAL(38, 0)) DESC NULLS LAST,
          CAST(GET("_field_home_0", 'rank') AS BIGINT) DESC NULLS LAST,
          CAST(GET("_field_home_0", 'value') AS VARCHAR) DESC NULLS LAST),
        0
      ) AS "_field_home_0",
      GET(
        ARRAY_AGG(
          IFF(
            CAST(GET("_field_home_1", 'written') AS DECIMAL(38, 0)) IS NOT NULL,
            OBJECT_CONSTRUCT_KEEP_NULL(
              'written',
              CAST(GET("_field_home_1", 'written') AS DECIMAL(38, 0)),
              'rank',
              CAST(GET("_field_home_1", 'rank') AS BIGINT),
              'negative',
              (
                CAST(GET("_field_home_1", 'value') AS BIGINT) < 0
              ),
              'value',
              CAST(GET("_field_home_1", 'value') AS BIGINT)
            ),
            NULL
          )
        ) WITHIN GROUP (ORDER BY
          CAST(GET("_field_home_1", 'written') AS DECIMAL(38, 0)) DESC NULLS LAST,
          CAST(GET("_field_home_1", 'rank') AS BIGINT) DESC NULLS LAST,
          CAST(GET("_field_home_1", 'value') AS BIGINT) < 0 DESC NULLS LAST,
          CAST(GET("_field_home_1", 'value') AS BIGINT) DESC NULLS LAST),
        0
      ) AS "_field_home_1",
      MAX("_deleted") AS "_deleted",
      MAX("_deletion_home") AS "_deletion_home"
    FROM "row_facts"
    GROUP BY
      "id"
  ), "covered_rows" AS (
    /* one row per row key */
    SELECT
      "id",
      "_live",
      "_field_home_0",
      "_field_home_1",
      "_deletion_home",
      "_deleted" AS "_scope"
    FROM "latest_rows"
  ), "judged_regular_cells" AS (
    /* one row per row key */
    SELECT
      "id",
      "_live",
      "_field_home_0",
      "_field_home_1",
      "_scope",
      (
        GREATEST_IGNORE_NULLS("_scope", "_deletion_home") IS NULL
        OR CAST(GET("_field_home_0", 'written') AS DECIMAL(38, 0)) > GREATEST_IGNORE_NULLS("_scope", "_deletion_home")
      )
      AND (
        CAST(GET("_field_home_0", 'rank') AS BIGINT) < -9223372036854775806
        OR (
          CAST(GET("_field_home_0", 'rank') AS BIGINT) < 0
          AND CAST(GET("_field_home_0", 'rank') AS BIGINT) >= (
            (
              (
                DATE_PART('EPOCH_SECOND', CURRENT_TIMESTAMP()) + 1
              ) * 2147483648
            ) + (
              -9223372036854775807 - 1
            )
          )
        )
      ) AS "_shows__field_home_0",
      (
        GREATEST_IGNORE_NULLS("_scope", "_deletion_home") IS NULL
        OR CAST(GET("_field_home_1", 'written') AS DECIMAL(38, 0)) > GREATEST_IGNORE_NULLS("_scope", "_deletion_home")
      )
      AND (
        CAST(GET("_field_home_1", 'rank') AS BIGINT) < -9223372036854775806
        OR (
          CAST(GET("_field_home_1", 'rank') AS BIGINT) < 0
          AND CAST(GET("_field_home_1", 'rank') AS BIGINT) >= (
            (
              (
                DATE_PART('EPOCH_SECOND', CURRENT_TIMESTAMP()) + 1
              ) * 2147483648
            ) + (
              -9223372036854775807 - 1
            )
          )
        )
      ) AS "_shows__field_home_1"
    FROM "covered_rows"
  ), "visible_rows" AS (
    /* one row per visible row */
    SELECT
      "id" AS "_view_id",
      CASE
        WHEN "_shows__field_home_0" OR "_shows__field_home_1"
        THEN OBJECT_CONSTRUCT_KEEP_NULL(
          'street',
          CASE WHEN "_shows__field_home_0" THEN CAST(GET("_field_home_0", 'value') AS VARCHAR) END,
          'x__5aip_20_43ode',
          CASE WHEN "_shows__field_home_1" THEN CAST(GET("_field_home_1", 'value') AS BIGINT) END
        )
      END AS "home"
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
      OR (
        "_shows__field_home_0" OR "_shows__field_home_1"
      )
  )
  /* one row per visible row */
  SELECT
    "_view_id",
    "home"
  FROM "visible_rows"
) AS "_merged"
