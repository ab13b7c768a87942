-- shop.orders: the latest cell of every column of every key (cdc-views, raw layout 1)
-- grain: one row per (id)
-- rules: C2 picks each winner, C4 and D1 hide expired and deleted ones, W2 decides which rows exist (docs/semantics.md)
-- strategy aggregate, as asked for
CREATE OR REPLACE VIEW "analytics"."orders" AS
WITH "latest_rows" AS (
  /* one row per row key */
  SELECT
    "id",
    MAX(STRUCT_PACK("written" := "_live"."written", "rank" := "_live"."rank"))
      FILTER(WHERE "_live"."written" IS NOT NULL) AS "_live",
    MAX(STRUCT_PACK("written" := "state"."written", "rank" := "state"."rank", "value" := "state"."value"))
      FILTER(WHERE "state"."written" IS NOT NULL) AS "state",
    MAX(
      STRUCT_PACK("written" := "price"."written", "rank" := "price"."rank", "bytes" := "price"."bytes", "value" := "price"."value")
    ) FILTER(WHERE "price"."written" IS NOT NULL) AS "price",
    MAX("_deleted"."written") AS "_deleted"
  FROM raw_orders
  WHERE
    "_kind" IN ('row', 'partition')
  GROUP BY
    "id"
), "latest_table" AS (
  /* one row per table */
  SELECT
    MAX("_deleted"."written") AS "_table_deleted"
  FROM raw_orders
  WHERE
    "_kind" IN ('table')
), "covered_rows" AS (
  /* one row per row key */
  SELECT
    "l"."id", "l"."_live", "l"."state", "l"."price",
    GREATEST("l"."_deleted", "r"."_table_deleted") AS "_scope"
  FROM "latest_rows" AS "l"
  CROSS JOIN "latest_table" AS "r"
)
/* one row per visible row */
SELECT
  "id" AS "id",
  CASE WHEN ("_scope" IS NULL OR "state"."written" > "_scope") AND "state"."rank" < 0 THEN "state"."value" END AS "state",
  CASE
    WHEN ("_scope" IS NULL OR "price"."written" > "_scope") AND "price"."rank" < 0
    THEN CASE
      WHEN CAST(CAST("price"."value" AS DECIMAL(12, 2)) AS TEXT) = "price"."value"
      THEN CAST("price"."value" AS DECIMAL(12, 2))
      ELSE CAST(CASE
        WHEN REGEXP_MATCHES("price"."value", '^-?(0*[0-9]{0,10}([.][0-9]{0,2}0*)?|[0-9.]+E[+][0-9]+|0([.]0+)?E-[0-9]+)$')
        THEN "price"."value"
        ELSE "price"."value" || ' does not fit decimal(12, 2) of price: update the schema file'
      END AS DECIMAL(12, 2))
    END
  END AS "price"
FROM "covered_rows"
WHERE
  ("_scope" IS NULL OR "_live"."written" > "_scope") AND "_live"."rank" < 0
