-- shop.orders: the latest cell of every column of every key (cdc-views, raw layout 1)
-- grain: one row per (id)
-- rules: C2 picks each winner, C4 and D1 hide expired and deleted ones, W2 decides which rows exist (docs/semantics.md)
-- strategy aggregate, as asked for
CREATE OR REPLACE VIEW "analytics"."orders" AS
WITH "latest_rows" AS (
  /* one row per row key */
  SELECT
    "id", "_key_id",
    (
      ARRAY_AGG("_live" ORDER BY ("_live")."written" DESC NULLS LAST, ("_live")."rank" DESC NULLS LAST)
        FILTER(WHERE ("_live")."written" IS NOT NULL)
    )[1] AS "_live",
    (
      ARRAY_AGG(
        "state" ORDER BY ("state")."written" DESC NULLS LAST, ("state")."rank" DESC NULLS LAST, (("state")."value") COLLATE "C" DESC NULLS LAST
      ) FILTER(WHERE ("state")."written" IS NOT NULL)
    )[1] AS "state",
    (
      ARRAY_AGG(
        "amount" ORDER BY ("amount")."written" DESC NULLS LAST, ("amount")."rank" DESC NULLS LAST, ("amount")."bytes" DESC NULLS LAST
      ) FILTER(WHERE ("amount")."written" IS NOT NULL)
    )[1] AS "amount",
    (
      ARRAY_AGG(
        "at" ORDER BY ("at")."written" DESC NULLS LAST, ("at")."rank" DESC NULLS LAST, ("at")."value" < 0 DESC NULLS LAST, ("at")."value" DESC NULLS LAST
      ) FILTER(WHERE ("at")."written" IS NOT NULL)
    )[1] AS "at",
    MAX(("_deleted")."written") AS "_deleted"
  FROM raw_orders AS "_raw"
  WHERE
    "_kind" IN ('row', 'partition')
  GROUP BY
    "id", "_key_id"
), "covered_rows" AS (
  /* one row per row key */
  SELECT
    "id", "_live", "state", "amount", "at",
    "_deleted" AS "_scope",
    ((CAST(FLOOR(EXTRACT(EPOCH FROM NOW())) AS BIGINT) + 1) * 2147483648) + (-9223372036854775807 - 1) AS "_clock"
  FROM "latest_rows"
), "judged_regular_cells" AS (
  /* one row per row key */
  SELECT
    "id", "_live", "state", "amount", "at", "_scope", "_clock",
    ("_scope" IS NULL OR ("state")."written" > "_scope")
    AND (("state")."rank" < -9223372036854775806 OR (("state")."rank" < 0 AND ("state")."rank" >= "_clock")) AS "_shows_state",
    ("_scope" IS NULL OR ("amount")."written" > "_scope")
    AND (("amount")."rank" < -9223372036854775806 OR (("amount")."rank" < 0 AND ("amount")."rank" >= "_clock")) AS "_shows_amount",
    ("_scope" IS NULL OR ("at")."written" > "_scope")
    AND (("at")."rank" < -9223372036854775806 OR (("at")."rank" < 0 AND ("at")."rank" >= "_clock")) AS "_shows_at"
  FROM "covered_rows"
)
/* one row per visible row */
SELECT
  "id" AS "id",
  CASE WHEN "_shows_state" THEN ("state")."value" END AS "state",
  CASE WHEN "_shows_amount" THEN ("amount")."value" END AS "amount",
  CASE
    WHEN "_shows_at"
    THEN CASE
      WHEN ("at")."value" BETWEEN -62135596800000 AND 253402300799999
      THEN CAST('1970-01-01 00:00:00+00' AS TIMESTAMPTZ) + DIV((
        "at"
      )."value", 1000) * CAST('1 second' AS INTERVAL) + MOD((
        "at"
      )."value", 1000) * CAST('1 millisecond' AS INTERVAL)
    END
  END AS "at"
FROM "judged_regular_cells"
WHERE
  (
    ("_scope" IS NULL OR ("_live")."written" > "_scope")
    AND (("_live")."rank" < -9223372036854775806 OR (("_live")."rank" < 0 AND ("_live")."rank" >= "_clock"))
  )
  OR "_shows_state"
  OR "_shows_amount"
  OR "_shows_at"
