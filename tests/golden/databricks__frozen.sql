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
      NAMED_STRUCT('written', `tags`.`written`, 'rank', `tags`.`rank`, 'bytes', `tags`.`bytes`, 'value', `tags`.`value`)
    ) FILTER(WHERE `tags`.`written` IS NOT NULL) AS `tags`,
    MAX(
      NAMED_STRUCT('written', `home`.`written`, 'rank', `home`.`rank`, 'bytes', `home`.`bytes`, 'value', `home`.`value`)
    ) FILTER(WHERE `home`.`written` IS NOT NULL) AS `home`,
    MAX(`_deleted`.`written`) AS `_deleted`
  FROM raw_orders
  WHERE
    `_kind` IN ('row', 'partition')
  GROUP BY
    `id`
), `covered_rows` AS (
  /* one row per row key */
  SELECT
    `id`, `_live`, `tags`, `home`,
    `_deleted` AS `_scope`,
    ((UNIX_TIMESTAMP() + 1) * 2147483648) + (-9223372036854775807 - 1) AS `_clock`
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
      THEN NAMED_STRUCT('street', `home`.`value`.`street`, 'Zip Code', `home`.`value`.`x__5aip_20_43ode`)
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
