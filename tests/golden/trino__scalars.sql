-- shop.orders: the latest cell of every column of every key (cdc-views, raw layout 1)
-- grain: one row per (id)
-- rules: C2 picks each winner, C4 and D1 hide expired and deleted ones, W2 decides which rows exist (docs/semantics.md)
-- strategy aggregate, as asked for
CREATE OR REPLACE VIEW "analytics"."orders" AS
WITH "latest_rows" AS (
  /* one row per row key */
  SELECT
    "id", "_key_id",
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
        ROW("amount"."written", "amount"."rank", "amount"."bytes", "amount"."value") ORDER BY "amount"."written" DESC, "amount"."rank" DESC, "amount"."bytes" DESC
      ) FILTER(WHERE "amount"."written" IS NOT NULL),
      1
    ) AS "amount",
    ELEMENT_AT(
      ARRAY_AGG(
        ROW("at"."written", "at"."rank", "at"."value" < 0, "at"."value") ORDER BY "at"."written" DESC, "at"."rank" DESC, "at"."value" < 0 DESC, "at"."value" DESC
      ) FILTER(WHERE "at"."written" IS NOT NULL),
      1
    ) AS "at",
    MAX("_deleted"."written") AS "_deleted"
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
    ((CAST(FLOOR(TO_UNIXTIME(NOW())) AS BIGINT) + 1) * 2147483648) + (-9223372036854775807 - 1) AS "_clock"
  FROM "latest_rows"
), "judged_regular_cells" AS (
  /* one row per row key */
  SELECT
    "id", "_live", "state", "amount", "at", "_scope", "_clock",
    ("_scope" IS NULL OR "state"[1] > "_scope")
    AND ("state"[2] < -9223372036854775806 OR ("state"[2] < 0 AND "state"[2] >= "_clock")) AS "_shows_state",
    ("_scope" IS NULL OR "amount"[1] > "_scope")
    AND ("amount"[2] < -9223372036854775806 OR ("amount"[2] < 0 AND "amount"[2] >= "_clock")) AS "_shows_amount",
    ("_scope" IS NULL OR "at"[1] > "_scope")
    AND ("at"[2] < -9223372036854775806 OR ("at"[2] < 0 AND "at"[2] >= "_clock")) AS "_shows_at"
  FROM "covered_rows"
)
/* one row per visible row */
SELECT
  "id" AS "id",
  CASE WHEN "_shows_state" THEN "state"[3] END AS "state",
  CASE WHEN "_shows_amount" THEN "amount"[4] END AS "amount",
  CASE
    WHEN "_shows_at"
    THEN CASE
      WHEN "at"[4] BETWEEN -62135596800000 AND 253402300799999
      THEN CAST(FROM_UNIXTIME_NANOS(CAST("at"[4] AS DECIMAL(38, 0)) * 1000000) AS TIMESTAMP(3) WITH TIME ZONE)
    END
  END AS "at"
FROM "judged_regular_cells"
WHERE
  (
    ("_scope" IS NULL OR "_live"[1] > "_scope")
    AND ("_live"[2] < -9223372036854775806 OR ("_live"[2] < 0 AND "_live"[2] >= "_clock"))
  )
  OR "_shows_state"
  OR "_shows_amount"
  OR "_shows_at"
