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
        `tags`.`written` IS NOT NULL,
        STRUCT(`tags`.`written` AS `written`, `tags`.`rank` AS `rank`, `tags`.`bytes` AS `bytes`, `tags`.`value` AS `value`),
        NULL
      ) IGNORE NULLS ORDER BY `tags`.`written` DESC, `tags`.`rank` DESC, `tags`.`bytes` DESC
      LIMIT 1
    )[SAFE_OFFSET(0)] AS `tags`,
    ARRAY_AGG(
      IF(
        `home`.`written` IS NOT NULL,
        STRUCT(`home`.`written` AS `written`, `home`.`rank` AS `rank`, `home`.`bytes` AS `bytes`, `home`.`value` AS `value`),
        NULL
      ) IGNORE NULLS ORDER BY `home`.`written` DESC, `home`.`rank` DESC, `home`.`bytes` DESC
      LIMIT 1
    )[SAFE_OFFSET(0)] AS `home`,
    MAX(`_deleted`.`written`) AS `_deleted`
  FROM raw_orders AS `_raw`
  WHERE
    `_kind` IN ('row', 'partition')
  GROUP BY
    `id`
), `covered_rows` AS (
  /* one row per row key */
  SELECT
    `id`, `_live`, `tags`, `home`,
    `_deleted` AS `_scope`,
    ((UNIX_SECONDS(CURRENT_TIMESTAMP()) + 1) * 2147483648) + (-9223372036854775807 - 1) AS `_clock`
  FROM `latest_rows`
), `judged_regular_cells` AS (
  /* one row per row key */
  SELECT
    `id`, `_live`, `tags`, `home`, `_scope`, `_clock`,
    (`_scope` IS NULL OR `tags`.`written` > `_scope`)
    AND (`tags`.`rank` < -9223372036854775806 OR (`tags`.`rank` < 0 AND `tags`.`rank` >= `_clock`)) AS `_shows_tags`,
    (`_scope` IS NULL OR `home`.`written` > `_scope`)
    AND (`home`.`rank` < -9223372036854775806 OR (`home`.`rank` < 0 AND `home`.`rank` >= `_clock`)) AS `_shows_home`
  FROM `covered_rows`
)
/* one row per visible row */
SELECT
  `id` AS `id`,
  CASE WHEN `_shows_tags` THEN `tags`.`value` END AS `tags`,
  CASE
    WHEN `_shows_home`
    THEN CASE
      WHEN NOT `home`.`value` IS NULL
      THEN STRUCT(`home`.`value`.`street` AS `street`, `home`.`value`.`x__5aip_20_43ode` AS `Zip Code`)
    END
  END AS `home`
FROM `judged_regular_cells`
WHERE
  (
    (`_scope` IS NULL OR `_live`.`written` > `_scope`)
    AND (`_live`.`rank` < -9223372036854775806 OR (`_live`.`rank` < 0 AND `_live`.`rank` >= `_clock`))
  )
  OR `_shows_tags`
  OR `_shows_home`
