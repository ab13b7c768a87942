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
      "_deleted"."written" AS "_deleted",
      "state",
      "price"
    FROM raw_orders AS "_raw"
    WHERE
      "_kind" IN ('row', 'partition')
  ), "latest_rows" AS (
    /* one row per row key */
    SELECT
      "id",
      ELEMENT_AT(
        ARRAY_AGG(ROW("_live"."written", "_live"."rank") ORDER BY "_live"."written" DESC, "_live"."rank" DESC) FILTER(WHERE
          "_live"."written" IS NOT NULL),
        1
      ) AS "_live",
      ELEMENT_AT(
        ARRAY_AGG(
          ROW("state"."written", "state"."rank", "state"."value") ORDER BY "state"."written" DESC, "state"."rank" DESC, "state"."value" DESC
        ) FILTER(WHERE
          "state"."written" IS NOT NULL),
        1
      ) AS "state",
      ELEMENT_AT(
        ARRAY_AGG(
          ROW("price"."written", "price"."rank", "price"."bytes", "price"."value") ORDER BY "price"."written" DESC, "price"."rank" DESC, "price"."bytes" DESC
        ) FILTER(WHERE
          "price"."written" IS NOT NULL),
        1
      ) AS "price",
      MAX("_deleted") AS "_deleted"
    FROM "row_facts"
    GROUP BY
      "id"
  ), "table_facts" AS (
    /* one row per table fact */
    SELECT
      "_deleted"."written" AS "_table_deleted"
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
      ARRAY_MAX(FILTER(ARRAY["_deleted", "_table_deleted"], "_item" -> "_item" IS NOT NULL)) AS "_scope"
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
        "_scope" IS NULL OR "state"[1] > "_scope"
      )
      AND (
        "state"[2] < -9223372036854775806
        OR (
          "state"[2] < 0
          AND "state"[2] >= (
            (
              (
                CAST(FLOOR(TO_UNIXTIME(NOW())) AS BIGINT) + 1
              ) * 2147483648
            ) + (
              -9223372036854775807 - 1
            )
          )
        )
      ) AS "_shows_state",
      (
        "_scope" IS NULL OR "price"[1] > "_scope"
      )
      AND (
        "price"[2] < -9223372036854775806
        OR (
          "price"[2] < 0
          AND "price"[2] >= (
            (
              (
                CAST(FLOOR(TO_UNIXTIME(NOW())) AS BIGINT) + 1
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
      CASE WHEN "_shows_state" THEN "state"[3] END AS "state",
      CASE
        WHEN "_shows_price"
        THEN CAST(CASE
          WHEN REGEXP_LIKE("price"[4], '^-?(0*[0-9]{0,10}([.][0-9]{0,2}0*)?|[0-9.]+E[+][0-9]+|0([.]0+)?E-[0-9]+)$')
          THEN "price"[4]
          ELSE "price"[4] || ' does not fit decimal(12, 2) of price: update the schema file'
        END AS DECIMAL(12, 2))
      END AS "price"
    FROM "judged_regular_cells"
    WHERE
      (
        "_scope" IS NULL OR "_live"[1] > "_scope"
      )
      AND (
        "_live"[2] < -9223372036854775806
        OR (
          "_live"[2] < 0
          AND "_live"[2] >= (
            (
              (
                CAST(FLOOR(TO_UNIXTIME(NOW())) AS BIGINT) + 1
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
