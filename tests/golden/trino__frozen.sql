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
        ROW("tags"."written", "tags"."rank", "tags"."bytes", "tags"."value") ORDER BY "tags"."written" DESC, "tags"."rank" DESC, "tags"."bytes" DESC
      ) FILTER(WHERE "tags"."written" IS NOT NULL),
      1
    ) AS "tags",
    ELEMENT_AT(
      ARRAY_AGG(
        ROW("home"."written", "home"."rank", "home"."bytes", "home"."value") ORDER BY "home"."written" DESC, "home"."rank" DESC, "home"."bytes" DESC
      ) FILTER(WHERE "home"."written" IS NOT NULL),
      1
    ) AS "home",
    MAX("_deleted"."written") AS "_deleted"
  FROM raw_orders AS "_raw"
  WHERE
    "_kind" IN ('row', 'partition')
  GROUP BY
    "id"
), "covered_rows" AS (
  /* one row per row key */
  SELECT
    "id", "_live", "tags", "home",
    "_deleted" AS "_scope",
    ((CAST(FLOOR(TO_UNIXTIME(NOW())) AS BIGINT) + 1) * 2147483648) + (-9223372036854775807 - 1) AS "_clock"
  FROM "latest_rows"
), "judged_regular_cells" AS (
  /* one row per row key */
  SELECT
    "id", "_live", "tags", "home", "_scope", "_clock",
    ("_scope" IS NULL OR "tags"[1] > "_scope")
    AND ("tags"[2] < -9223372036854775806 OR ("tags"[2] < 0 AND "tags"[2] >= "_clock")) AS "_shows_tags",
    ("_scope" IS NULL OR "home"[1] > "_scope")
    AND ("home"[2] < -9223372036854775806 OR ("home"[2] < 0 AND "home"[2] >= "_clock")) AS "_shows_home"
  FROM "covered_rows"
)
/* one row per visible row */
SELECT
  "id" AS "id",
  CASE WHEN "_shows_tags" THEN "tags"[4] END AS "tags",
  CASE
    WHEN "_shows_home"
    THEN CASE
      WHEN "home"[4] IS NOT NULL
      THEN CAST(ROW("home"[4]."street", "home"[4]."x__5aip_20_43ode") AS ROW("street" VARCHAR, "Zip Code" INTEGER))
    END
  END AS "home"
FROM "judged_regular_cells"
WHERE
  (
    ("_scope" IS NULL OR "_live"[1] > "_scope")
    AND ("_live"[2] < -9223372036854775806 OR ("_live"[2] < 0 AND "_live"[2] >= "_clock"))
  )
  OR "_shows_tags"
  OR "_shows_home"
