-- shop.orders: the latest cell of every column of every key (cdc-views, raw layout 1)
-- grain: one row per (id)
-- rules: C2 picks each winner, C4 and D1 hide expired and deleted ones, W2 decides which rows exist (docs/semantics.md)
-- strategy aggregate, as asked for
CREATE OR REPLACE VIEW "analytics"."orders" AS
SELECT
  "_view_id" AS "id",
  "state" AS "state",
  "amount" AS "amount",
  "at" AS "at"
FROM (
  WITH "row_facts" AS (
    /* one row per row or partition fact */
    SELECT
      "id",
      "_key_id",
      "_live",
      CAST(GET("_deleted", 'written') AS DECIMAL(38, 0)) AS "_deleted",
      "state",
      "amount",
      "at"
    FROM raw_orders AS "_raw"
    WHERE
      "_kind" IN ('row', 'partition')
  ), "latest_rows" AS (
    /* one row per row key */
    SELECT
      "id",
      "_key_id",
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
            CAST(GET("amount", 'written') AS DECIMAL(38, 0)) IS NOT NULL,
            OBJECT_CONSTRUCT_KEEP_NULL(
              'written',
              CAST(GET("amount", 'written') AS DECIMAL(38, 0)),
              'rank',
              CAST(GET("amount", 'rank') AS BIGINT),
              'bytes',
              CAST(GET("amount", 'bytes') AS VARCHAR),
              'value',
              CAST(GET("amount", 'value') AS VARCHAR)
            ),
            NULL
          )
        ) WITHIN GROUP (ORDER BY
          CAST(GET("amount", 'written') AS DECIMAL(38, 0)) DESC NULLS LAST,
          CAST(GET("amount", 'rank') AS BIGINT) DESC NULLS LAST,
          CAST(GET("amount", 'bytes') AS VARCHAR) DESC NULLS LAST),
        0
      ) AS "amount",
      GET(
        ARRAY_AGG(
          IFF(
            CAST(GET("at", 'written') AS DECIMAL(38, 0)) IS NOT NULL,
            OBJECT_CONSTRUCT_KEEP_NULL(
              'written',
              CAST(GET("at", 'written') AS DECIMAL(38, 0)),
              'rank',
              CAST(GET("at", 'rank') AS BIGINT),
              'negative',
              (
                CAST(GET("at", 'value') AS BIGINT) < 0
              ),
              'value',
              CAST(GET("at", 'value') AS BIGINT)
            ),
            NULL
          )
        ) WITHIN GROUP (ORDER BY
          CAST(GET("at", 'written') AS DECIMAL(38, 0)) DESC NULLS LAST,
          CAST(GET("at", 'rank') AS BIGINT) DESC NULLS LAST,
          CAST(GET("at", 'value') AS BIGINT) < 0 DESC NULLS LAST,
          CAST(GET("at", 'value') AS BIGINT) DESC NULLS LAST),
        0
      ) AS "at",
      MAX("_deleted") AS "_deleted"
    FROM "row_facts"
    GROUP BY
      "id",
      "_key_id"
  ), "covered_rows" AS (
    /* one row per row key */
    SELECT
      "id",
      "_live",
      "state",
      "amount",
      "at",
      "_deleted" AS "_scope"
    FROM "latest_rows"
  ), "judged_regular_cells" AS (
    /* one row per row key */
    SELECT
      "id",
      "_live",
      "state",
      "amount",
      "at",
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
        "_scope" IS NULL OR CAST(GET("amount", 'written') AS DECIMAL(38, 0)) > "_scope"
      )
      AND (
        CAST(GET("amount", 'rank') AS BIGINT) < -9223372036854775806
        OR (
          CAST(GET("amount", 'rank') AS BIGINT) < 0
          AND CAST(GET("amount", 'rank') AS BIGINT) >= (
            (
              (
                DATE_PART('EPOCH_SECOND', CURRENT_TIMESTAMP()) + 1
              ) * 2147483648
            ) + (
              -9223372036854775807 - 1
            )
          )
        )
      ) AS "_shows_amount",
      (
        "_scope" IS NULL OR CAST(GET("at", 'written') AS DECIMAL(38, 0)) > "_scope"
      )
      AND (
        CAST(GET("at", 'rank') AS BIGINT) < -9223372036854775806
        OR (
          CAST(GET("at", 'rank') AS BIGINT) < 0
          AND CAST(GET("at", 'rank') AS BIGINT) >= (
            (
              (
                DATE_PART('EPOCH_SECOND', CURRENT_TIMESTAMP()) + 1
              ) * 2147483648
            ) + (
              -9223372036854775807 - 1
            )
          )
        )
      ) AS "_shows_at"
    FROM "covered_rows"
  ), "visible_rows" AS (
    /* one row per visible row */
    SELECT
      "id" AS "_view_id",
      CASE WHEN "_shows_state" THEN CAST(GET("state", 'value') AS VARCHAR) END AS "state",
      CASE WHEN "_shows_amount" THEN CAST(GET("amount", 'value') AS VARCHAR) END AS "amount",
      CASE
        WHEN "_shows_at"
        THEN CASE
          WHEN CAST(GET("at", 'value') AS BIGINT) BETWEEN -62135596800000 AND 253402300799999
          THEN TO_TIMESTAMP_TZ(CAST(GET("at", 'value') AS BIGINT), 3)
        END
      END AS "at"
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
      OR "_shows_state"
      OR "_shows_amount"
      OR "_shows_at"
  )
  /* one row per visible row */
  SELECT
    "_view_id",
    "state",
    "amount",
    "at"
  FROM "visible_rows"
) AS "_merged"
