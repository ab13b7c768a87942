-- shop.orders: the latest cell of every column of every key (cdc-views, raw layout 1)
-- grain: one row per (id)
-- rules: C2 picks each winner, C4 and D1 hide expired and deleted ones, W2 decides which rows exist (docs/semantics.md)
-- strategy aggregate, as asked for
CREATE OR REPLACE VIEW "analytics"."orders" AS
WITH "latest_rows" AS (
  /* one row per row key */
  SELECT
    "id",
    ELEMENT_AT(
      ARRAY_AGG(ROW("_live"."written", "_live"."rank") ORDER BY "_live"."written" DESC, "_live"."rank" DESC)
        FILTER(WHERE "_live"."written" IS NOT NULL),
      1
    ) AS "_live",
    ELEMENT_AT(
      ARRAY_AGG(
        ROW("state"."written", "state"."rank", "state"."value") ORDER BY "state"."written" DESC, "state"."rank" DESC, "state"."value" DESC
      ) FILTER(WHERE "state"."written" IS NOT NULL),
      1
    ) AS "state",
    ELEMENT_AT(
      ARRAY_AGG(
        ROW("price"."written", "price"."rank", "price"."bytes", "price"."value") ORDER BY "price"."written" DESC, "price"."rank" DESC, "price"."bytes" DESC
      ) FILTER(WHERE "price"."written" IS NOT NULL),
      1
    ) AS "price",
    MAX("_deleted"."written") AS "_deleted"
  FROM raw_orders AS "_raw"
  WHERE
    "_kind" IN ('row', 'partition')
  GROUP BY
    "id"
), "latest_table" AS (
  /* one row per table */
  SELECT
    MAX("_deleted"."written") AS "_table_deleted"
  FROM raw_orders AS "_raw"
  WHERE
    "_kind" IN ('table')
), "covered_rows" AS (
  /* one row per row key */
  SELECT
    "l"."id", "l"."_live", "l"."state", "l"."price",
    ARRAY_MAX(FILTER(ARRAY["l"."_deleted", "r"."_table_deleted"], "_item" -> "_item" IS NOT NULL)) AS "_scope"
  FROM "latest_rows" AS "l"
  CROSS JOIN "latest_table" AS "r"
)
/* one row per visible row */
SELECT
  "id" AS "id",
  CASE WHEN ("_scope" IS NULL OR "state"[1] > "_scope") AND "state"[2] < 0 THEN "state"[3] END AS "state",
  CASE
    WHEN ("_scope" IS NULL OR "price"[1] > "_scope") AND "price"[2] < 0
    THEN CAST(CASE
      WHEN REGEXP_LIKE("price"[4], '^-?(0*[0-9]{0,10}([.][0-9]{0,2}0*)?|[0-9.]+E[+][0-9]+|0([.]0+)?E-[0-9]+)$')
      THEN "price"[4]
      ELSE "price"[4] || ' does not fit decimal(12, 2) of price: update the schema file'
    END AS DECIMAL(12, 2))
  END AS "price"
FROM "covered_rows"
WHERE
  ("_scope" IS NULL OR "_live"[1] > "_scope") AND "_live"[2] < 0
