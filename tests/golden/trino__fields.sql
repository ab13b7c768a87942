-- shop.orders: the latest cell of every column of every key (cdc-views, raw layout 1)
-- grain: one row per (id)
-- rules: C2 picks each winner, C4 and D1 hide expired and deleted ones, W2 decides which rows exist (docs/semantics.md)
-- strategy aggregate, as asked for
CREATE OR REPLACE VIEW "analytics"."orders" AS
SELECT
  "_view_id" AS "id",
  "home" AS "home"
FROM (
  WITH "row_facts" AS (
    /* one row per row or partition fact */
    SELECT
      "id",
      "_live",
      "_deleted"."written" AS "_deleted",
      "home"."deletion"."written" AS "_deletion_home",
      "home"."cells"."street" AS "_field_home_0",
      "home"."cells"."x__5aip_20_43ode" AS "_field_home_1"
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
          ROW("_field_home_0"."written", "_field_home_0"."rank", "_field_home_0"."value") ORDER BY "_field_home_0"."written" DESC, "_field_home_0"."rank" DESC, "_field_home_0"."value" DESC
        ) FILTER(WHERE
          "_field_home_0"."written" IS NOT NULL),
        1
      ) AS "_field_home_0",
      ELEMENT_AT(
        ARRAY_AGG(
          ROW("_field_home_1"."written", "_field_home_1"."rank", "_field_home_1"."value" < 0, "_field_home_1"."value") ORDER BY "_field_home_1"."written" DESC, "_field_home_1"."rank" DESC, "_field_home_1"."value" < 0 DESC, "_field_home_1"."value" DESC
        ) FILTER(WHERE
          "_field_home_1"."written" IS NOT NULL),
        1
      ) AS "_field_home_1",
      MAX("_deleted") AS "_deleted",
      MAX("_deletion_home") AS "_deletion_home"
    FROM "row_facts"
    GROUP BY
      "id"
  ), "covered_rows" AS (
    /* one row per row key */
    SELECT
      "id",
      "_live",
      "_field_home_0",
      "_field_home_1",
      "_deletion_home",
      "_deleted" AS "_scope"
    FROM "latest_rows"
  ), "judged_regular_cells" AS (
    /* one row per row key */
    SELECT
      "id",
      "_live",
      "_field_home_0",
      "_field_home_1",
      "_scope",
      (
        ARRAY_MAX(FILTER(ARRAY["_scope", "_deletion_home"], "_item" -> "_item" IS NOT NULL)) IS NULL
        OR "_field_home_0"[1] > ARRAY_MAX(FILTER(ARRAY["_scope", "_deletion_home"], "_item" -> "_item" IS NOT NULL))
      )
      AND (
        "_field_home_0"[2] < -9223372036854775806
        OR (
          "_field_home_0"[2] < 0
          AND "_field_home_0"[2] >= (
            (
              (
                CAST(FLOOR(TO_UNIXTIME(NOW())) AS BIGINT) + 1
              ) * 2147483648
            ) + (
              -9223372036854775807 - 1
            )
          )
        )
      ) AS "_shows__field_home_0",
      (
        ARRAY_MAX(FILTER(ARRAY["_scope", "_deletion_home"], "_item" -> "_item" IS NOT NULL)) IS NULL
        OR "_field_home_1"[1] > ARRAY_MAX(FILTER(ARRAY["_scope", "_deletion_home"], "_item" -> "_item" IS NOT NULL))
      )
      AND (
        "_field_home_1"[2] < -9223372036854775806
        OR (
          "_field_home_1"[2] < 0
          AND "_field_home_1"[2] >= (
            (
              (
                CAST(FLOOR(TO_UNIXTIME(NOW())) AS BIGINT) + 1
              ) * 2147483648
            ) + (
              -9223372036854775807 - 1
            )
          )
        )
      ) AS "_shows__field_home_1"
    FROM "covered_rows"
  ), "visible_rows" AS (
    /* one row per visible row */
    SELECT
      "id" AS "_view_id",
      CASE
        WHEN "_shows__field_home_0" OR "_shows__field_home_1"
        THEN CAST(ROW(
          CASE WHEN "_shows__field_home_0" THEN "_field_home_0"[3] END,
          CASE WHEN "_shows__field_home_1" THEN "_field_home_1"[4] END
        ) AS ROW("street" VARCHAR, "x__5aip_20_43ode" INTEGER))
      END AS "home"
    FROM "judged_regular_cells"
    WHERE
      (
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
      OR (
        "_shows__field_home_0" OR "_shows__field_home_1"
      )
  )
  /* one row per visible row */
  SELECT
    "_view_id",
    "home"
  FROM "visible_rows"
) AS "_merged"
