-- shop.orders: the latest cell of every column of every key (cdc-views, raw layout 1)
-- grain: one row per (id)
-- rules: C2 picks each winner, C4 and D1 hide expired and deleted ones, W2 decides which rows exist (docs/semantics.md)
-- strategy aggregate, as asked for
CREATE OR REPLACE VIEW `analytics`.`orders` AS
WITH `latest_rows` AS (
  /* one row per row key */
  SELECT
    `id`, `_key_id`,
    ARRAY_AGG(
      IF(`_live`.`written` IS NOT NULL, STRUCT(`_live`.`written` AS `written`, `_live`.`rank` AS `rank`), NULL) IGNORE NULLS ORDER BY `_live`.`written` DESC, `_live`.`rank` DESC
      LIMIT 1
    )[SAFE_OFFSET(0)] AS `_live`,
    ARRAY_AGG(
      IF(
        `state`.`written` IS NOT NULL,
        STRUCT(`state`.`written` AS `written`, `state`.`rank` AS `rank`, `state`.`value` AS `value`),
        NULL
      ) IGNORE NULLS ORDER BY `state`.`written` DESC, `state`.`rank` DESC, `state`.`value` DESC
      LIMIT 1
    )[SAFE_OFFSET(0)] AS `state`,
    ARRAY_AGG(
      IF(
        `amount`.`written` IS NOT NULL,
        STRUCT(`amount`.`written` AS `written`, `amount`.`rank` AS `rank`, `amount`.`bytes` AS `bytes`, `amount`.`value` AS `value`),
        NULL
      ) IGNORE NULLS ORDER BY `amount`.`written` DESC, `amount`.`rank` DESC, `amount`.`bytes` DESC
      LIMIT 1
    )[SAFE_OFFSET(0)] AS `amount`,
    ARRAY_AGG(
      IF(
        `at`.`written` IS NOT NULL,
        STRUCT(`at`.`written` AS `written`, `at`.`rank` AS `rank`, `at`.`value` < 0 AS `negative`, `at`.`value` AS `value`),
        NULL
      ) IGNORE NULLS ORDER BY `at`.`written` DESC, `at`.`rank` DESC, `at`.`value` < 0 DESC, `at`.`value` DESC
      LIMIT 1
    )[SAFE_OFFSET(0)] AS `at`,
    MAX(`_deleted`.`written`) AS `_deleted`
  FROM raw_orders AS `_raw`
  WHERE
    `_kind` IN ('row', 'partition')
  GROUP BY
    `id`, `_key_id`
), `covered_rows` AS (
  /* one row per row key */
  SELECT
    `id`, `_live`, `state`, `amount`, `at`,
    `_deleted` AS `_scope`,
    ((UNIX_SECONDS(CURRENT_TIMESTAMP()) + 1) * 2147483648) + (-9223372036854775807 - 1) AS `_clock`
  FROM `latest_rows`
), `judged_regular_cells` AS (
  /* one row per row key */
  SELECT
    `id`, `_live`, `state`, `amount`, `at`, `_scope`, `_clock`,
    (`_scope` IS NULL OR `state`.`written` > `_scope`)
    AND (`state`.`rank` < -9223372036854775806 OR (`state`.`rank` < 0 AND `state`.`rank` >= `_clock`)) AS `_shows_state`,
    (`_scope` IS NULL OR `amount`.`written` > `_scope`)
    AND (`amount`.`rank` < -9223372036854775806 OR (`amount`.`rank` < 0 AND `amount`.`rank` >= `_clock`)) AS `_shows_amount`,
    (`_scope` IS NULL OR `at`.`written` > `_scope`)
    AND (`at`.`rank` < -9223372036854775806 OR (`at`.`rank` < 0 AND `at`.`rank` >= `_clock`)) AS `_shows_at`
  FROM `covered_rows`
)
/* one row per visible row */
SELECT
  `id` AS `id`,
  CASE WHEN `_shows_state` THEN `state`.`value` END AS `state`,
  CASE WHEN `_shows_amount` THEN `amount`.`value` END AS `amount`,
  CASE
    WHEN `_shows_at`
    THEN CASE WHEN `at`.`value` BETWEEN -62135596800000 AND 253402300799999 THEN TIMESTAMP_MILLIS(`at`.`value`) END
  END AS `at`
FROM `judged_regular_cells`
WHERE
  (
    (`_scope` IS NULL OR `_live`.`written` > `_scope`)
    AND (`_live`.`rank` < -9223372036854775806 OR (`_live`.`rank` < 0 AND `_live`.`rank` >= `_clock`))
  )
  OR `_shows_state`
  OR `_shows_amount`
  OR `_shows_at`
