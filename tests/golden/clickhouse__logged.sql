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
      tupleElement("_deleted", 'written') AS "_deleted",
      "state",
      "price"
    FROM raw_orders AS "_raw"
    WHERE
      "_kind" IN ('row', 'partition')
  ), "latest_rows" AS (
    /* one row per row key */
    SELECT
      "id",
      argMaxIf(
        tuple(tupleElement("_live", 'written'), tupleElement("_live", 'rank')),
        tuple(tupleElement("_live", 'written'), tupleElement("_live", 'rank')),
        tupleElement("_live", 'written') IS NOT NULL
      ) AS "_live",
      argMaxIf(
        tuple(tupleElement("state", 'written'), tupleElement("state", 'rank'), tupleElement("state", 'value')),
        tuple(tupleElement("state", 'written'), tupleElement("state", 'rank'), tupleElement("state", 'value')),
        tupleElement("state", 'written') IS NOT NULL
      ) AS "state",
      argMaxIf(
        tuple(
          tupleElement("price", 'written'),
          tupleElement("price", 'rank'),
          tupleElement("price", 'bytes'),
          tupleElement("price", 'value')
        ),
        tuple(tupleElement("price", 'written'), tupleElement("price", 'rank'), tupleElement("price", 'bytes')),
        tupleElement("price", 'written') IS NOT NULL
      ) AS "price",
      max("_deleted") AS "_deleted"
    FROM "row_facts"
    GROUP BY
      "id"
  ), "table_facts" AS (
    /* one row per table fact */
    SELECT
      tupleElement("_deleted", 'written') AS "_table_deleted"
    FROM raw_orders AS "_raw"
    WHERE
      "_kind" IN ('table')
  ), "latest_table" AS (
    /* one row per table */
    SELECT
      max("_table_deleted") AS "_table_deleted"
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
      arrayReduce('max', ["_deleted", "_table_deleted"]) AS "_scope"
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
        "_scope" IS NULL OR tupleElement("state", 1) > "_scope"
      )
      AND (
        tupleElement("state", 2) < -9223372036854775806
        OR (
          tupleElement("state", 2) < 0
          AND tupleElement("state", 2) >= (
            (
              (
                toInt64(toUnixTimestamp(now())) + 1
              ) * 2147483648
            ) + (
              -9223372036854775807 - 1
            )
          )
        )
      ) AS "_shows_state",
      (
        "_scope" IS NULL OR tupleElement("price", 1) > "_scope"
      )
      AND (
        tupleElement("price", 2) < -9223372036854775806
        OR (
          tupleElement("price", 2) < 0
          AND tupleElement("price", 2) >= (
            (
              (
                toInt64(toUnixTimestamp(now())) + 1
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
      CASE WHEN "_shows_state" THEN tupleElement("state", 3) END AS "state",
      CASE
        WHEN "_shows_price"
        THEN CAST(CASE
          WHEN match(tupleElement("price", 4), '^-?(0*[0-9]{0,10}([.][0-9]{0,2}0*)?|[0-9.]+E[+][0-9]+|0([.]0+)?E-[0-9]+)$')
          THEN tupleElement("price", 4)
          ELSE tupleElement("price", 4) || ' does not fit decimal(12, 2) of price: update the schema file'
        END AS Nullable(Decimal(12, 2)))
      END AS "price"
    FROM "judged_regular_cells"
    WHERE
      (
        "_scope" IS NULL OR tupleElement("_live", 1) > "_scope"
      )
      AND (
        tupleElement("_live", 2) < -9223372036854775806
        OR (
          tupleElement("_live", 2) < 0
          AND tupleElement("_live", 2) >= (
            (
              (
                toInt64(toUnixTimestamp(now())) + 1
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
  SETTINGS join_use_nulls = 1, prefer_column_name_to_alias = 1
) AS "_merged"
