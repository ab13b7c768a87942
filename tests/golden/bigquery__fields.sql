-- shop.orders: the latest cell of every column of every key (cdc-views, raw layout 1)
-- grain: one row per (id)
-- rules: C2 picks each winner, C4 and D1 hide expired and deleted ones, W2 decides which rows exist (docs/semantics.md)
-- strategy aggregate, as asked for
CREATE OR REPLACE VIEW `analytics`.`orders` AS
WITH `latest_rows` AS (
  /* one row per row key */
  SELECT
    `id`,
    ARRAY_AGG(
      IF(`_live`.`written` IS NOT NULL, STRUCT(`_live`.`written` AS `written`, `_live`.`rank` AS `rank`), NULL) IGNORE NULLS ORDER BY `_live`.`written` DESC, `_live`.`rank` DESC
      LIMIT 1
    )[SAFE_OFFSET(0)] AS `_live`,
    ARRAY_AGG(
      IF(
        `home`.`cells`.`street`.`written` IS NOT NULL,
        STRUCT(
          `home`.`cells`.`street`.`written` AS `written`,
          `home`.`cells`.`street`.`rank` AS `rank`,
          `home`.`cells`.`street`.`value` AS `value`
        ),
        NULL
      ) IGNORE NULLS ORDER BY `home`.`cells`.`street`.`written` DESC, `home`.`cells`.`street`.`rank` DESC, `home`.`cells`.`street`.`value` DESC
      LIMIT 1
    )[SAFE_OFFSET(0)] AS `_field_home_0`,
    ARRAY_AGG(
      IF(
        `home`.`cells`.`x__5aip_20_43ode`.`written` IS NOT NULL,
        STRUCT(
          `home`.`cells`.`x__5aip_20_43ode`.`written` AS `written`,
          `home`.`cells`.`x__5aip_20_43ode`.`rank` AS `rank`,
          `home`.`cells`.`x__5aip_20_43ode`.`value` < 0 AS `negative`,
          `home`.`cells`.`x__5aip_20_43ode`.`value` AS `value`
        ),
        NULL
      ) IGNORE NULLS ORDER BY `home`.`cells`.`x__5aip_20_43ode`.`written` DESC, `home`.`cells`.`x__5aip_20_43ode`.`rank` DESC, `home`.`cells`.`x__5aip_20_43ode`.`value` < 0 DESC, `home`.`cells`.`x__5aip_20_43ode`.`value` DESC
      LIMIT 1
    )[SAFE_OFFSET(0)] AS `_field_home_1`,
    MAX(`_deleted`.`written`) AS `_deleted`,
    MAX(`home`.`deletion`.`written`) AS `_deletion_home`
  FROM raw_orders AS `_raw`
  WHERE
    `_kind` IN ('row', 'partition')
  GROUP BY
    `id`
), `covered_rows` AS (
  /* one row per row key */
  SELECT
    `id`, `_live`, `_field_home_0`, `_field_home_1`, `_deletion_home`,
    `_deleted` AS `_scope`,
    ((UNIX_SECONDS(CURRENT_TIMESTAMP()) + 1) * 2147483648) + (-9223372036854775807 - 1) AS `_clock`
  FROM `latest_rows`
), `judged_regular_cells` AS (
  /* one row per row key */
  SELECT
    `id`, `_live`, `_field_home_0`, `_field_home_1`, `_scope`, `_clock`,
    (
      (SELECT MAX(`_item`) FROM UNNEST([`_scope`, `_deletion_home`]) AS `_item`) IS NULL
      OR `_field_home_0`.`written` > (SELECT MAX(`_item`) FROM UNNEST([`_scope`, `_deletion_home`]) AS `_item`)
    )
    AND (
      `_field_home_0`.`rank` < -9223372036854775806
      OR (`_field_home_0`.`rank` < 0 AND `_field_home_0`.`rank` >= `_clock`)
    ) AS `_shows__field_home_0`,
    (
      (SELECT MAX(`_item`) FROM UNNEST([`_scope`, `_deletion_home`]) AS `_item`) IS NULL
      OR `_field_home_1`.`written` > (SELECT MAX(`_item`) FROM UNNEST([`_scope`, `_deletion_home`]) AS `_item`)
    )
    AND (
      `_field_home_1`.`rank` < -9223372036854775806
      OR (`_field_home_1`.`rank` < 0 AND `_field_home_1`.`rank` >= `_clock`)
    ) AS `_shows__field_home_1`
  FROM `covered_rows`
)
/* one row per visible row */
SELECT
  `id` AS `id`,
  CASE
    WHEN `_shows__field_home_0` OR `_shows__field_home_1`
    THEN STRUCT(
      CASE WHEN `_shows__field_home_0` THEN `_field_home_0`.`value` END AS `street`,
      CASE WHEN `_shows__field_home_1` THEN `_field_home_1`.`value` END AS `x__5aip_20_43ode`
    )
  END AS `home`
FROM `judged_regular_cells`
WHERE
  (
    (`_scope` IS NULL OR `_live`.`written` > `_scope`)
    AND (`_live`.`rank` < -9223372036854775806 OR (`_live`.`rank` < 0 AND `_live`.`rank` >= `_clock`))
  )
  OR (`_shows__field_home_0` OR `_shows__field_home_1`)
