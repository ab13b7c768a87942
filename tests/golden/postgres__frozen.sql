-- shop.orders: the latest cell of every column of every key (cdc-views, raw layout 1)
-- grain: one row per (id)
-- rules: C2 picks each winner, C4 and D1 hide expired and deleted ones, W2 decides which rows exist (docs/semantics.md)
-- strategy aggregate, as asked for
CREATE OR REPLACE VIEW "analytics"."orders" AS
WITH "latest_rows" AS (
  /* one row per row key */
  SELECT
    "id",
    (
      ARRAY_AGG("_live" ORDER BY ("_live")."written" DESC NULLS LAST, ("_live")."rank" DESC NULLS LAST)
        FILTER(WHERE ("_live")."written" IS NOT NULL)
    )[1] AS "_live",
    (
      ARRAY_AGG(
        "tags" ORDER BY ("tags")."written" DESC NULLS LAST, ("tags")."rank" DESC NULLS LAST, ("tags")."bytes" DESC NULLS LAST
      ) FILTER(WHERE ("tags")."written" IS NOT NULL)
    )[1] AS "tags",
    (
      ARRAY_AGG(
        "home" ORDER BY ("home")."written" DESC NULLS LAST, ("home")."rank" DESC NULLS LAST, ("home")."bytes" DESC NULLS LAST
      ) FILTER(WHERE ("home")."written" IS NOT NULL)
    )[1] AS "home",
    MAX(("_deleted")."written") AS "_deleted"
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
    ((CAST(FLOOR(EXTRACT(EPOCH FROM NOW())) AS BIGINT) + 1) * 2147483648) + (-9223372036854775807 - 1) AS "_clock"
  FROM "latest_rows"
), "judged_regular_cells" AS (
  /* one row per row key */
  SELECT
    "id", "_live", "tags", "home", "_scope", "_clock",
    ("_scope" IS NULL OR ("tags")."written" > "_scope")
    AND (("tags")."rank" < -9223372036854775806 OR (("tags")."rank" < 0 AND ("tags")."rank" >= "_clock")) AS "_shows_tags",
    ("_scope" IS NULL OR ("home")."written" > "_scope")
    AND (("home")."rank" < -9223372036854775806 OR (("home")."rank" < 0 AND ("home")."rank" >= "_clock")) AS "_shows_home"
  FROM "covered_rows"
)
/* one row per visible row */
SELECT
  "id" AS "id",
  CASE WHEN "_shows_tags" THEN ("tags")."value" END AS "tags",
  CASE WHEN "_shows_home" THEN ("home")."value" END AS "home"
FROM "judged_regular_cells"
WHERE
  (
    ("_scope" IS NULL OR ("_live")."written" > "_scope")
    AND (("_live")."rank" < -9223372036854775806 OR (("_live")."rank" < 0 AND ("_live")."rank" >= "_clock"))
  )
  OR "_shows_tags"
  OR "_shows_home"
