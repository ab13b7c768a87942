-- shop.orders: the latest cell of every column of every key (cdc-views, raw layout 1)
-- grain: one row per (id)
-- rules: C2 picks each winner, C4 and D1 hide expired and deleted ones, W2 decides which rows exist (docs/semantics.md)
-- strategy window, as asked for
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
      CAST("_deleted"."written" AS DECIMAL(38, 0)) AS "_deleted",
      "state",
      "amount",
      "at"
    FROM raw_orders AS "_raw"
    WHERE
      "_kind" IN ('row', 'partition')
  ), "latest_rows_ranked" AS (
    /* one row per fact */
    SELECT
      "id",
      "_key_id",
      "_live",
      "_deleted",
      "state",
      "amount",
      "at",
      ROW_NUMBER() OVER (
        PARTITION BY "_key_id"
        ORDER BY CAST("_live"."written" AS DECIMAL(38, 0)) DESC NULLS LAST, CAST("_live"."rank" AS BIGINT) DESC NULLS LAST
      ) AS "_rank_0",
      ROW_NUMBER() OVER (
        PARTITION BY "_key_id"
        ORDER BY CAST("state"."written" AS DECIMAL(38, 0)) DESC NULLS LAST, CAST("state"."rank" AS BIGINT) DESC NULLS LAST, CAST("state"."value" AS VARCHAR(65535)) DESC NULLS LAST
      ) AS "_rank_1",
      ROW_NUMBER() OVER (
        PARTITION BY "_key_id"
        ORDER BY CAST("amount"."written" AS DECIMAL(38, 0)) DESC NULLS LAST, CAST("amount"."rank" AS BIGINT) DESC NULLS LAST, CAST("amount"."bytes" AS VARCHAR(65535)) DESC NULLS LAST
      ) AS "_rank_2",
      ROW_NUMBER() OVER (
        PARTITION BY "_key_id"
        ORDER BY CAST("at"."written" AS DECIMAL(38, 0)) DESC NULLS LAST, CAST("at"."rank" AS BIGINT) DESC NULLS LAST, CAST("at"."value" AS BIGINT) < 0 DESC NULLS LAST, CAST("at"."value" AS BIGINT) DESC NULLS LAST
      ) AS "_rank_3"
    FROM "row_facts"
  ), "latest_rows" AS (
    /* one row per row key */
    SELECT
      "id",
      "_key_id",
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
            WHEN "_rank_2" = 1 AND CAST("amount"."written" AS DECIMAL(38, 0)) IS NOT NULL
            THEN CAST("amount"."written" AS DECIMAL(38, 0))
          END
        ),
        'rank',
        MAX(
          CASE
            WHEN "_rank_2" = 1 AND CAST("amount"."written" AS DECIMAL(38, 0)) IS NOT NULL
            THEN CAST("amount"."rank" AS BIGINT)
          END
        ),
        'bytes',
        MAX(
          CASE
            WHEN "_rank_2" = 1 AND CAST("amount"."written" AS DECIMAL(38, 0)) IS NOT NULL
            THEN CAST("amount"."bytes" AS VARCHAR(65535))
          END
        ),
        'value',
        MAX(
          CASE
            WHEN "_rank_2" = 1 AND CAST("amount"."written" AS DECIMAL(38, 0)) IS NOT NULL
            THEN CAST("amount"."value" AS VARCHAR(65535))
          END
        )
      ) AS "amount",
      OBJECT(
        'written',
        MAX(
          CASE
            WHEN "_rank_3" = 1 AND CAST("at"."written" AS DECIMAL(38, 0)) IS NOT NULL
            THEN CAST("at"."written" AS DECIMAL(38, 0))
          END
        ),
        'rank',
        MAX(
          CASE
            WHEN "_rank_3" = 1 AND CAST("at"."written" AS DECIMAL(38, 0)) IS NOT NULL
            THEN CAST("at"."rank" AS BIGINT)
          END
        ),
        'negative',
        BOOL_OR(
          CASE
            WHEN "_rank_3" = 1 AND CAST("at"."written" AS DECIMAL(38, 0)) IS NOT NULL
            THEN CAST("at"."value" AS BIGINT) < 0
          END
        ),
        'value',
        MAX(
          CASE
            WHEN "_rank_3" = 1 AND CAST("at"."written" AS DECIMAL(38, 0)) IS NOT NULL
            THEN CAST("at"."value" AS BIGINT)
          END
        )
      ) AS "at",
      MAX("_deleted") AS "_deleted"
    FROM "latest_rows_ranked"
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
        "_scope" IS NULL OR CAST("amount"."written" AS DECIMAL(38, 0)) > "_scope"
      )
      AND (
        CAST("amount"."rank" AS BIGINT) < -9223372036854775806
        OR (
          CAST("amount"."rank" AS BIGINT) < 0
          AND CAST("amount"."rank" AS BIGINT) >= (
            (
              (
                CAST(EXTRACT(EPOCH FROM GETDATE()) AS BIGINT) + 1
              ) * 2147483648
            ) + (
              -9223372036854775807 - 1
            )
          )
        )
      ) AS "_shows_amount",
      (
        "_scope" IS NULL OR CAST("at"."written" AS DECIMAL(38, 0)) > "_scope"
      )
      AND (
        CAST("at"."rank" AS BIGINT) < -9223372036854775806
        OR (
          CAST("at"."rank" AS BIGINT) < 0
          AND CAST("at"."rank" AS BIGINT) >= (
            (
              (
                CAST(EXTRACT(EPOCH FROM GETDATE()) AS BIGINT) + 1
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
      CASE WHEN "_shows_state" THEN CAST("state"."value" AS VARCHAR(65535)) END AS "state",
      CASE WHEN "_shows_amount" THEN CAST("amount"."value" AS VARCHAR(65535)) END AS "amount",
      CASE
        WHEN "_shows_at"
        THEN CASE
          WHEN CAST("at"."value" AS BIGINT) BETWEEN -62135596800000 AND 253402300799999
          THEN CAST('1970-01-01 00:00:00+00' AS TIMESTAMP WITH TIME ZONE) + (
            (
              CAST("at"."value" AS BIGINT) - MOD(CAST("at"."value" AS BIGINT), 1000)
            ) / 1000
          ) * CAST('1 second' AS INTERVAL) + MOD(CAST("at"."value" AS BIGINT), 1000) * CAST('1 millisecond' AS INTERVAL)
        END
      END AS "at"
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
