-- shop.orders: the latest cell of every column of every key (cdc-views, raw layout 1)
-- grain: one row per (id)
-- rules: C2 picks each winner, C4 and D1 hide expired and deleted ones, W2 decides which rows exist (docs/semantics.md)
-- strategy aggregate, as asked for
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
      CAST(GET("_deleted", 'written') AS DECIMAL(38, 0)) AS "_deleted",
      "state",
      "price"
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
            CAST(GET("state", 'written') AS DECIMAL(38, 0)) IS NOT NULL,
            OBJECT_CONSTRUCT_KEEP_NULL(
              'written',
              CAST(GET("state", 'written') AS DECIMAL(38, 0)),
              'rank',
              CAST(GET("state", 'rank') AS BIGINT),
              'value',
              CAST(GET("state", 'value') AS VARCHAR)
            ),
            NULL
          )
        ) WITHIN GROUP (ORDER BY
          CAST(GET("state", 'written') AS DECIMAL(38, 0)) DESC NULLS LAST,
          CAST(GET("state", 'rank') AS BIGINT) DESC NULLS LAST,
          CAST(GET("state", 'value') AS VARCHAR) DESC NULLS LAST),
        0
      ) AS "state",
      GET(
        ARRAY_AGG(
          IFF(
            CAST(GET("price", 'written') AS DECIMAL(38, 0)) IS NOT NULL,
            OBJECT_CONSTRUCT_KEEP_NULL(
              'written',
              CAST(GET("price", 'written') AS DECIMAL(38, 0)),
              'rank',
              CAST(GET("price", 'rank') AS BIGINT),
              'bytes',
              CAST(GET("price", 'bytes') AS VARCHAR),
              'value',
              CAST(GET("price", 'value') AS VARCHAR)
            ),
            NULL
          )
        ) WITHIN GROUP (ORDER BY
          CAST(GET("price", 'written') AS DECIMAL(38, 0)) DESC NULLS LAST,
          CAST(GET("price", 'rank') AS BIGINT) DESC NULLS LAST,
          CAST(GET("price", 'bytes') AS VARCHAR) DESC NULLS LAST),
        0
      ) AS "price",
      MAX("_deleted") AS "_deleted"
    FROM "row_facts"
    GROUP BY
      "id"
  ), "table_facts" AS (
    /* one row per table fact */
    SELECT
      CAST(GET("_deleted", 'written') AS DECIMAL(38, 0)) AS "_table_deleted"
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
      GREATEST_IGNORE_NULLS("_deleted", "_table_deleted") AS "_scope"
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
        "_scope" IS NULL OR CAST(GET("state", 'written') AS DECIMAL(38, 0)) > "_scope"
      )
      AND (
        CAST(GET("state", 'rank') AS BIGINT) < -9223372036854775806
        OR (
          CAST(GET("state", 'rank') AS BIGINT) < 0
          AND CAST(GET("state", 'rank') AS BIGINT) >= (
            (
              (
                DATE_PART('EPOCH_SECOND', CURRENT_TIMESTAMP()) + 1
              ) * 2147483648
            ) + (
              -9223372036854775807 - 1
            )
          )
        )
      ) AS "_shows_state",
      (
        "_scope" IS NULL OR CAST(GET("price", 'written') AS DECIMAL(38, 0)) > "_scope"
      )
      AND (
        CAST(GET("price", 'rank') AS BIGINT) < -9223372036854775806
        OR (
          CAST(GET("price", 'rank') AS BIGINT) < 0
          AND CAST(GET("price", 'rank') AS BIGINT) >= (
            (
              (
                DATE_PART('EPOCH_SECOND', CURRENT_TIMESTAMP()) + 1
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
      CASE WHEN "_shows_state" THEN CAST(GET("state", 'value') AS VARCHAR) END AS "state",
      CASE
        WHEN "_shows_price"
        THEN CAST(CASE
          WHEN REGEXP_LIKE(
            CAST(GET("price", 'value') AS VARCHAR),
            '^-?(0*[0-9]{0,10}([.][0-9]{0,2}0*)?|[0-9.]+E[+][0-9]+|0([.]0+)?E-[0-9]+)$'
          )
          THEN CAST(GET("price", 'value') AS VARCHAR)
          ELSE CAST(GET("price", 'value') AS VARCHAR) || ' does not fit decimal(12, 2) of price: update the schema file'
        END AS DECIMAL(12, 2))
      END AS "price"
    FROM "judged_regular_cells"
    WHERE
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
  /* one row per visible row */
  SELECT
    "_view_id",
    "state",
    "price"
  FROM "visible_rows"
) AS "_merged"
