-- shop.orders: the latest cell of every column of every key (cdc-views, raw layout 1)
-- grain: one row per (id)
-- rules: C2 picks each winner, C4 and D1 hide expired and deleted ones, W2 decides which rows exist (docs/semantics.md)
-- strategy window, as asked for
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
      CAST("_deleted"."written" AS DECIMAL(38, 0)) AS "_deleted",
      CAST("home"."deletion"."written" AS DECIMAL(38, 0)) AS "_deletion_home",
      "home"."cells"."street" AS "_field_home_0",
      "home"."cells"."x__5aip_20_43ode" AS "_field_home_1"
    FROM raw_orders AS "_raw"
    WHERE
      "_kind" IN ('row', 'partition')
  ), "latest_rows_ranked" AS (
    /* one row per fact */
    SELECT
      "id",
      "_live",
      "_deleted",
      "_deletion_home",
      "_field_home_0",
      "_field_home_1",
      ROW_NUMBER() OVER (
        PARTITION BY "id"
        ORDER BY CAST("_live"."written" AS DECIMAL(38, 0)) DESC NULLS LAST, CAST("_live"."rank" AS BIGINT) DESC NULLS LAST
      ) AS "_rank_0",
      ROW_NUMBER() OVER (
        PARTITION BY "id"
        ORDER BY CAST("_field_home_0"."written" AS DECIMAL(38, 0)) DESC NULLS LAST, CAST("_field_home_0"."rank" AS BIGINT) DESC NULLS LAST, CAST("_field_home_0"."value" AS VARCHAR(65535)) DESC NULLS LAST
      ) AS "_rank_1",
      ROW_NUMBER() OVER (
        PARTITION BY "id"
        ORDER BY CAST("_field_home_1"."written" AS DECIMAL(38, 0)) DESC NULLS LAST, CAST("_field_home_1"."rank" AS BIGINT) DESC NULLS LAST, CAST("_field_home_1"."value" AS BIGINT) < 0 DESC NULLS LAST, CAST("_field_home_1"."value" AS BIGINT) DESC NULLS LAST
      ) AS "_rank_2"
    FROM "row_facts"
  ), "latest_rows" AS (
    /* one row per row key */
    SELECT
      "id",
      OBJECT(
        'written',
        MAX(
          CASE
            WHEN "_rank_0" = 1 AND CAST("_live"."written" AS DECIMAL(38, 0)) IS NOT NULL
            THEN CAST("_live"."written" AS DECIMAL(38, 0))
          END
        ),
        'rank',
        MAX(
          CASE
            WHEN "_rank_0" = 1 AND CAST("_live"."written" AS DECIMAL(38, 0)) IS NOT NULL
            THEN CAST("_live"."rank" AS BIGINT)
          END
        )
      ) AS "_live",
      OBJECT(
        'written',
        MAX(
          CASE
            WHEN "_rank_1" = 1 AND CAST("_field_home_0"."written" AS DECIMAL(38, 0)) IS NOT NULL
            THEN CAST("_field_home_0"."written" AS DECIMAL(38, 0))
          END
        ),
        'rank',
        MAX(
          CASE
            WHEN "_rank_1" = 1 AND CAST("_field_home_0"."written" AS DECIMAL(38, 0)) IS NOT NULL
            THEN CAST("_field_home_0"."rank" AS BIGINT)
          END
        ),
        'value',
        MAX(
          CASE
            WHEN "_rank_1" = 1 AND CAST("_field_home_0"."written" AS DECIMAL(38, 0)) IS NOT NULL
            THEN CAST("_field_home_0"."value" AS VARCHAR(65535))
          END
        )
      ) AS "_field_home_0",
      OBJECT(
        'written',
        MAX(
          CASE
            WHEN "_rank_2" = 1 AND CAST("_field_home_1"."written" AS DECIMAL(38, 0)) IS NOT NULL
            THEN CAST("_field_home_1"."written" AS DECIMAL(38, 0))
          END
        ),
        'rank',
        MAX(
          CASE
            WHEN "_rank_2" = 1 AND CAST("_field_home_1"."written" AS DECIMAL(38, 0)) IS NOT NULL
            THEN CAST("_field_home_1"."rank" AS BIGINT)
          END
        ),
        'negative',
        BOOL_OR(
          CASE
            WHEN "_rank_2" = 1 AND CAST("_field_home_1"."written" AS DECIMAL(38, 0)) IS NOT NULL
            THEN CAST("_field_home_1"."value" AS BIGINT) < 0
          END
        ),
        'value',
        MAX(
          CASE
            WHEN "_rank_2" = 1 AND CAST("_field_home_1"."written" AS DECIMAL(38, 0)) IS NOT NULL
            THEN CAST("_field_home_1"."value" AS BIGINT)
          END
        )
      ) AS "_field_home_1",
      MAX("_deleted") AS "_deleted",
      MAX("_deletion_home") AS "_deletion_home"
    FROM "latest_rows_ranked"
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
        GREATEST("_scope", "_deletion_home") IS NULL
        OR CAST("_field_home_0"."written" AS DECIMAL(38, 0)) > GREATEST("_scope", "_deletion_home")
      )
      AND (
        CAST("_field_home_0"."rank" AS BIGINT) < -9223372036854775806
        OR (
          CAST("_field_home_0"."rank" AS BIGINT) < 0
          AND CAST("_field_home_0"."rank" AS BIGINT) >= (
            (
              (
                CAST(EXTRACT(EPOCH FROM GETDATE()) AS BIGINT) + 1
              ) * 2147483648
            ) + (
              -9223372036854775807 - 1
            )
          )
        )
      ) AS "_shows__field_home_0",
      (
        GREATEST("_scope", "_deletion_home") IS NULL
        OR CAST("_field_home_1"."written" AS DECIMAL(38, 0)) > GREATEST("_scope", "_deletion_home")
      )
      AND (
        CAST("_field_home_1"."rank" AS BIGINT) < -9223372036854775806
        OR (
          CAST("_field_home_1"."rank" AS BIGINT) < 0
          AND CAST("_field_home_1"."rank" AS BIGINT) >= (
            (
              (
                CAST(EXTRACT(EPOCH FROM GETDATE()) AS BIGINT) + 1
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
        THEN OBJECT(
          'street',
          CASE WHEN "_shows__field_home_0" THEN CAST("_field_home_0"."value" AS VARCHAR(65535)) END,
          'x__5aip_20_43ode',
          CASE WHEN "_shows__field_home_1" THEN CAST("_field_home_1"."value" AS BIGINT) END
        )
      END AS "home"
    FROM "judged_regular_cells"
    WHERE
      (
        (
          "_scope" IS NULL OR CAST("_live"."written" AS DECIMAL(38, 0)) > "_scope"
        )
        AND (
          CAST("_live"."rank" AS BIGINT) < -9223372036854775806
          OR (
            CAST("_live"."rank" AS BIGINT) < 0
            AND CAST("_live"."rank" AS BIGINT) >= (
              (
                (
                  CAST(EXTRACT(EPOCH FROM GETDATE()) AS BIGINT) + 1
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
