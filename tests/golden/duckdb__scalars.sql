-- shop.orders: the latest cell of every column of every key (cdc-views, raw layout 1)
-- grain: one row per (id)
-- rules: C2 picks each winner, C4 and D1 hide expired and deleted ones, W2 decides which rows exist (docs/semantics.md)
-- strategy aggregate, as asked for
CREATE OR REPLACE VIEW "analytics"."orders" AS
WITH "latest_rows" AS (
  /* one row per row key */
  SELECT
    "id", "_key_id",
    MAX(STRUCT_PACK("written" := "_live"."written", "rank" := "_live"."rank"))
      FILTER(WHERE "_live"."written" IS NOT NULL) AS "_live",
    MAX(STRUCT_PACK("written" := "state"."written", "rank" := "state"."rank", "value" := "state"."value"))
      FILTER(WHERE "state"."written" IS NOT NULL) AS "state",
    MAX(
      STRUCT_PACK("written" := "amount"."written", "rank" := "amount"."rank", "bytes" := "amount"."bytes", "value" := "amount"."value")
    ) FILTER(WHERE "amount"."written" IS NOT NULL) AS "amount",
    MAX(
      STRUCT_PACK("written" := "at"."written", "rank" := "at"."rank", "negative" := "at"."value" < 0, "value" := "at"."value")
    ) FILTER(WHERE "at"."written" IS NOT NULL) AS "at",
    MAX("_deleted"."written") AS "_deleted"
  FROM raw_orders
  WHERE
    "_kind" IN ('row', 'partition')
  GROUP BY
    "id", "_key_id"
), "covered_rows" AS (
  /* one row per row key */
  SELECT
    "id", "_live", "state", "amount", "at",
    "_deleted" AS "_scope",
    ((CAST(FLOOR(EPOCH(NOW())) AS BIGINT) + 1) * 2147483648) + (-9223372036854775807 - 1) AS "_clock"
  FROM "latest_rows"
), "judged_regular_cells" AS (
  /* one row per row key */
  SELECT
    "id", "_live", "state", "amount", "at", "_scope", "_clock",
    ("_scope" IS NULL OR "state"."written" > "_scope")
    AND ("state"."rank" < -9223372036854775806 OR ("state"."rank" < 0 AND "state"."rank" >= "_clock")) AS "_shows_state",
    ("_scope" IS NULL OR "amount"."written" > "_scope")
    AND ("amount"."rank" < -9223372036854775806 OR ("amount"."rank" < 0 AND "amount"."rank" >= "_clock")) AS "_shows_amount",
    ("_scope" IS NULL OR "at"."written" > "_scope")
    AND ("at"."rank" < -9223372036854775806 OR ("at"."rank" < 0 AND "at"."rank" >= "_clock")) AS "_shows_at"
  FROM "covered_rows"
)
/* one row per visible row */
SELECT
  "id" AS "id",
  CASE WHEN "_shows_state" THEN "state"."value" END AS "state",
  CASE WHEN "_shows_amount" THEN "amount"."value" END AS "amount",
  CASE
    WHEN "_shows_at"
    THEN CASE WHEN "at"."value" BETWEEN -9000000000000 AND 9000000000000 THEN MAKE_TIMESTAMPTZ("at"."value" * 1000) END
  END AS "at"
FROM "judged_regular_cells"
WHERE
  (
    ("_scope" IS NULL OR "_live"."written" > "_scope")
    AND ("_live"."rank" < -9223372036854775806 OR ("_live"."rank" < 0 AND "_live"."rank" >= "_clock"))
  )
  OR "_shows_state"
  OR "_shows_amount"
  OR "_shows_at"
