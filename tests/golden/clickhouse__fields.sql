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
      tupleElement("_deleted", 'written') AS "_deleted",
      tupleElement(tupleElement("home", 'deletion'), 'written') AS "_deletion_home",
      tupleElement(tupleElement("home", 'cells'), 'street') AS "_field_home_0",
      tupleElement(tupleElement("home", 'cells'), 'x__5aip_20_43ode') AS "_field_home_1"
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
        tuple(
          tupleElement("_field_home_0", 'written'),
          tupleElement("_field_home_0", 'rank'),
          tupleElement("_field_home_0", 'value')
        ),
        tuple(
          tupleElement("_field_home_0", 'written'),
          tupleElement("_field_home_0", 'rank'),
          tupleElement("_field_home_0", 'value')
        ),
        tupleElement("_field_home_0", 'written') IS NOT NULL
      ) AS "_field_home_0",
      argMaxIf(
        tuple(
          tupleElement("_field_home_1", 'written'),
          tupleElement("_field_home_1", 'rank'),
          tupleElement("_field_home_1", 'value') < 0,
          tupleElement("_field_home_1", 'value')
        ),
        tuple(
          tupleElement("_field_home_1", 'written'),
          tupleElement("_field_home_1", 'rank'),
          tupleElement("_field_home_1", 'value') < 0,
          tupleElement("_field_home_1", 'value')
        ),
        tupleElement("_field_home_1", 'written') IS NOT NULL
      ) AS "_field_home_1",
      max("_deleted") AS "_deleted",
      max("_deletion_home") AS "_deletion_home"
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
        arrayReduce('max', ["_scope", "_deletion_home"]) IS NULL
        OR tupleElement("_field_home_0", 1) > arrayReduce('max', ["_scope", "_deletion_home"])
      )
      AND (
        tupleElement("_field_home_0", 2) < -9223372036854775806
        OR (
          tupleElement("_field_home_0", 2) < 0
          AND tupleElement("_field_home_0", 2) >= (
            (
              (
                toInt64(toUnixTimestamp(now())) + 1
              ) * 2147483648
            ) + (
              -9223372036854775807 - 1
            )
          )
        )
      ) AS "_shows__field_home_0",
      (
        arrayReduce('max', ["_scope", "_deletion_home"]) IS NULL
        OR tupleElement("_field_home_1", 1) > arrayReduce('max', ["_scope", "_deletion_home"])
      )
      AND (
        tupleElement("_field_home_1", 2) < -9223372036854775806
        OR (
          tupleElement("_field_home_1", 2) < 0
          AND tupleElement("_field_home_1", 2) >= (
            (
              (
                toInt64(toUnixTimestamp(now())) + 1
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
      if(
        "_shows__field_home_0" OR "_shows__field_home_1",
        CAST(
          tuple(
            CASE WHEN "_shows__field_home_0" THEN tupleElement("_field_home_0", 3) END,
            CASE WHEN "_shows__field_home_1" THEN tupleElement("_field_home_1", 4) END
          ),
          'Tuple("street" Nullable(String), "x__5aip_20_43ode" Nullable(Int32))'
        ),
        defaultValueOfArgumentType(
          CAST(
            tuple(
              CASE WHEN "_shows__field_home_0" THEN tupleElement("_field_home_0", 3) END,
              CASE WHEN "_shows__field_home_1" THEN tupleElement("_field_home_1", 4) END
            ),
            'Tuple("street" Nullable(String), "x__5aip_20_43ode" Nullable(Int32))'
          )
        )
      ) AS "home"
    FROM "judged_regular_cells"
    WHERE
      (
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
      OR (
        "_shows__field_home_0" OR "_shows__field_home_1"
      )
  )
  /* one row per visible row */
  SELECT
    "_view_id",
    "home"
  FROM "visible_rows"
  SETTINGS join_use_nulls = 1, prefer_column_name_to_alias = 1
) AS "_merged"
