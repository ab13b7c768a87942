-- shop.orders: the latest cell of every column of every key (cdc-views, raw layout 1)
-- grain: one row per (id)
-- rules: C2 picks each winner, C4 and D1 hide expired and deleted ones, W2 decides which rows exist (docs/semantics.md)
-- strategy aggregate, as asked for
CREATE OR REPLACE VIEW `analytics`.`orders` AS
WITH `latest_rows` AS (
  /* one row per row key */
  SELECT
    `id`,
    MAX(NAMED_STRUCT('written', `_live`.`written`, 'rank', `_live`.`rank`))
      FILTER(WHERE `_live`.`written` IS NOT NULL) AS `_live`,
    MAX(
      NAMED_STRUCT(
        'written',
        `home`.`cells`.`street`.`written`,
        'rank',
        `home`.`cells`.`street`.`rank`,
        'value',
        `home`.`cells`.`street`.`value`
      )
    ) FILTER(WHERE `home`.`cells`.`street`.`written` IS NOT NULL) AS `_field_home_0`,
    MAX(
      NAMED_STRUCT(
        'written',
        `home`.`cells`.`x__5aip_20_43ode`.`written`,
        'rank',
        `home`.`cells`.`x__5aip_20_43ode`.`rank`,
        'negative',
        `home`.`cells`.`x__5aip_20_43ode`.`value` < 0,
        'value',
        `home`.`cells`.`x__5aip_20_43ode`.`value`
      )
    ) FILTER(WHERE `home`.`cells`.`x__5aip_20_43ode`.`written` IS NOT NULL) AS `_field_home_1`,
    MAX(`_deleted`.`written`) AS `_deleted`,
    MAX(`home`.`deletion`.`written`) AS `_deletion_home`
  FROM raw_orders
  WHERE
    `_kind` IN ('row', 'partition')
  GROUP BY
    `id`
), `covered_rows` AS (
  /* one row per row key */
  SELECT
    `id`, `_live`, `_field_home_0`, `_field_home_1`, `_deletion_home`,
    `_deleted` AS `_scope`,
    ((UNIX_TIMESTAMP() + 1) * 2147483648) + (-9223372036854775807 - 1) AS `_clock`
  FROM `latest_rows`
), `judged_regular_cells` AS (
  /* one row per row key */
  SELECT
    `id`, `_live`, `_field_home_0`, `_field_home_1`, `_scope`, `_clock`,
    (
      GREATEST(`_scope`, `_deletion_home`) IS NULL OR `_field_home_0`.`written` > GREATEST(`_scope`, `_deletion_home`)
    )
    AND (
      `_field_home_0`.`rank` < -9223372036854775806
      OR (`_field_home_0`.`rank` < 0 AND `_field_home_0`.`rank` >= `_clock`)
    ) AS `_shows__field_home_0`,
    (
      GREATEST(`_scope`, `_deletion_home`) IS NULL OR `_field_home_1`.`written` > GREATEST(`_scope`, `_deletion_home`)
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
    THEN NAMED_STRUCT(
      'street',
      CASE WHEN `_shows__field_home_0` THEN `_field_home_0`.`value` END,
      'x__5aip_20_43ode',
      CASE WHEN `_shows__field_home_1` THEN `_field_home_1`.`value` END
    )
  END AS `home`
FROM `judged_regular_cells`
WHERE
  (
    (`_scope` IS NULL OR `_live`.`written` > `_scope`)
    AND (`_live`.`rank` < -9223372036854775806 OR (`_live`.`rank` < 0 AND `_live`.`rank` >= `_clock`))
  )
  OR (`_shows__field_home_0` OR `_shows__field_home_1`)
