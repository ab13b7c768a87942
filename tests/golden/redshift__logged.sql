-- shop.orders: the latest cell of every column of every key (cdc-views, raw layout 1)
-- grain: one row per (id)
-- rules: C2 picks each winner, C4 and D1 hide expired and deleted ones, W2 decides which rows exist (docs/semantics.md)
-- strategy window, as asked for
CREATE OR REPLACE VIEW "analytics"."orders" AS
SELECT
  "_view_id" AS "id",
  "state" AS "state",
  "price" AS "price"
FROM (
  WITH "row_facts" AS (
    /* one row per row or partition fact */
    SELECT
      "id",
      "_live",
      CAST("_deleted"."written" AS DECIMAL(38, 0)) AS "_deleted",
      "state",
      "price"
    FROM raw_orders AS "_raw"
    WHERE
      "_kind" IN ('row', 'partition')
  ), "latest_rows_ranked" AS (
    /* one row per fact */
    SELECT
      "id",
      "_live",
      "_deleted",
      "state",
      "price",
      ROW_NUMBER() OVER (
        PARTITION BY "id"
        ORDER BY CAST("_live"."written" AS DECIMAL(38, 0)) DESC NULLS LAST, CAST("_live"."rank" AS BIGINT) DESC NULLS LAST
      ) AS "_rank_0",
      ROW_NUMBER() OVER (
        PARTITION BY "id"
        ORDER BY CAST("state"."written" AS DECIMAL(38, 0)) DESC NULLS LAST, CAST("state"."rank" AS BIGINT) DESC NULLS LAST, CAST("state"."value" AS VARCHAR(65535)) DESC NULLS LAST
      ) AS "_rank_1",
      ROW_NUMBER() OVER (
        PARTITION BY "id"
        ORDER BY CAST("price"."written" AS DECIMAL(38, 0)) DESC NULLS LAST, CAST("price"."rank" AS BIGINT) DESC NULLS LAST, CAST("price"."bytes" AS VARCHAR(65535)) DESC NULLS LAST
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
            WHEN "_rank_1" = 1 AND CAST("state"."written" AS DECIMAL(38, 0)) IS NOT NULL
            THEN CAST("state"."written" AS DECIMAL(38, 0))
          END
        ),
        'rank',
        MAX(
          CASE
            WHEN "_rank_1" = 1 AND CAST("state"."written" AS DECIMAL(38, 0)) IS NOT NULL
            THEN CAST("state"."rank" AS BIGINT)
          END
        ),
        'value',
        MAX(
          CASE
            WHEN "_rank_1" = 1 AND CAST("state"."written" AS DECIMAL(38, 0)) IS NOT NULL
            THEN CAST("state"."value" AS VARCHAR(65535))
          END
        )
      ) AS "state",
      OBJECT(
        'written',
        MAX(
          CASE
            WHEN "_rank_2" = 1 AND CAST("price"."written" AS DECIMAL(38, 0)) IS NOT NULL
            THEN CAST("price"."written" AS DECIMAL(38, 0))
          END
        ),
        'rank',
        MAX(
          CASE
            WHEN "_rank_2" = 1 AND CAST("price"."written" AS DECIMAL(38, 0)) IS NOT NULL
            THEN CAST("price"."rank" AS BIGINT)
          END
        ),
        'bytes',
        MAX(
          CASE
            WHEN "_rank_2" = 1 AND CAST("price"."written" AS DECIMAL(38, 0)) IS NOT NULL
            THEN CAST("price"."bytes" AS VARCHAR(65535))
          END
        ),
        'value',
        MAX(
          CASE
            WHEN "_rank_2" = 1 AND CAST("price"."written" AS DECIMAL(38, 0)) IS NOT NULL
            THEN CAST("price"."value" AS VARCHAR(65535))
          END
        )
      ) AS "price",
      MAX("_deleted") AS "_deleted"
    FROM "latest_rows_ranked"
    GROUP BY
      "id"
  ), "table_facts" AS (
    /* one row per table fact */
    SELECT
      CAST("_deleted"."written" AS DECIMAL(38, 0)) AS "_table_deleted"
    FROM raw_orders AS "_raw"
    WHERE
      "_kind" IN ('table')
  ), "latest_table" AS (
    /* one row per table */
    SELECT
      MAX("_table_deleted") AS "_table_deleted"
    FROM "table_facts"
  ), "latest_rows_and_table" AS (
    /* one row per row key */
    SELECT
      "l"."id",
      "l"."_live",
      "l"."state",
      "l"."price",
      "l"."_deleted",
      "r"."_table_deleted"
    FROM "latest_rows" AS "l"
    CROSS JOIN "latest_table" AS "r"
  ), "covered_rows" AS (
    /* one row per row key */
    SELECT
      "id",
      "_live",
      "state",
      "price",
      GREATEST("_deleted", "_table_deleted") AS "_scope"
    FROM "latest_rows_and_table"
  ), "judged_regular_cells" AS (
    /* one row per row key */
    SELECT
      "id",
      "_live",
      "state",
      "price",
      "_scope",
      (
        "_scope" IS NULL OR CAST("state"."written" AS DECIMAL(38, 0)) > "_scope"
      )
      AND (
        CAST("state"."rank" AS BIGINT) < -9223372036854775806
        OR (
          CAST("state"."rank" AS BIGINT) < 0
          AND CAST("state"."rank" AS BIGINT) >= (
            (
              (
                CAST(EXTRACT(EPOCH FROM GETDATE()) AS BIGINT) + 1
              ) * 2147483648
            ) + (
              -9223372036854775807 - 1
            )
          )
        )
      ) AS "_shows_state",
      (
        "_scope" IS NULL OR CAST("price"."written" AS DECIMAL(38, 0)) > "_scope"
      )
      AND (
        CAST("price"."rank" AS BIGINT) < -9223372036854775806
        OR (
          CAST("price"."rank" AS BIGINT) < 0
          AND CAST("price"."rank" AS BIGINT) >= (
            (
              (
                CAST(EXTRACT(EPOCH FROM GETDATE()) AS BIGINT) + 1
              ) * 2147483648
            ) + (
              -9223372036854775807 - 1
            )
          )
        )
      ) AS "_shows_price"
    FROM "covered_rows"
  ), "visible_rows" AS (
    /* one row per visible row */
    SELECT
      "id" AS "_view_id",
      CASE WHEN "_shows_state" THEN CAST("state"."value" AS VARCHAR(65535)) END AS "state",
      CASE
        WHEN "_shows_price"
        THEN CAST(CASE
          WHEN CAST("price"."value" AS VARCHAR(65535)) ~ '^-?(0*[0-9]{0,10}([.][0-9]{0,2}0*)?|[0-9.]+E[+][0-9]+|0([.]0+)?E-[0-9]+)$'
          THEN CAST("price"."value" AS VARCHAR(65535))
          ELSE CAST("price"."value" AS VARCHAR(65535)) || ' does not fit decimal(12, 2) of price: update the schema file'
        END AS DECIMAL(12, 2))
      END AS "price"
    FROM "judged_regular_cells"
    WHERE
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
  /* one row per visible row */
  SELECT
    "_view_id",
    "state",
    "price"
  FROM "visible_rows"
) AS "_merged"
