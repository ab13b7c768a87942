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
    MAX(`_deleted`.`written`) AS `_deleted`,
    MAX(`lines`.`deletion`.`written`) AS `_deletion_lines`,
    MAX(`prices`.`deletion`.`written`) AS `_deletion_prices`
  FROM raw_orders
  WHERE
    `_kind` IN ('row', 'partition')
  GROUP BY
    `id`
), `lines_facts` AS (
  /* one row per row fact */
  SELECT
    `id`,
    `lines`.`cells` AS `lines`
  FROM raw_orders
  WHERE
    `_kind` IN ('row') AND `lines` IS NOT NULL
), `lines_elements` AS (
  /* one row per element fact */
  SELECT
    `id`,
    EXPLODE(`lines`) AS `_element`
  FROM `lines_facts`
), `lines_paths` AS (
  /* one row per element fact */
  SELECT
    `id`,
    `_element`.`key` AS `_path_key`,
    `_element`.`path` AS `_path`,
    `_element`
  FROM `lines_elements`
), `latest_lines_elements` AS (
  /* one row per row key and path */
  SELECT
    `id`, `_path_key`,
    MAX(
      NAMED_STRUCT('written', `_element`.`written`, 'rank', `_element`.`rank`, 'negative', `_element`.`value` < 0, 'value', `_element`.`value`)
    ) FILTER(WHERE `_element`.`written` IS NOT NULL) AS `_cell`,
    MIN(`_path`) AS `_path`
  FROM `lines_paths`
  GROUP BY
    `id`, `_path_key`
), `cells_lines` AS (
  /* one row per row key with elements */
  SELECT
    `id`,
    ARRAY_SORT(
      COLLECT_LIST(
        NAMED_STRUCT('key', `_path_key`, 'path', `_path`, 'written', `_cell`.`written`, 'rank', `_cell`.`rank`, 'value', `_cell`.`value`)
      )
    ) AS `_cells_lines`
  FROM `latest_lines_elements`
  GROUP BY
    `id`
), `latest_rows_with_lines` AS (
  /* one row per row key */
  SELECT
    `l`.`id`, `l`.`_live`, `l`.`_deleted`, `l`.`_deletion_lines`, `l`.`_deletion_prices`, `r`.`_cells_lines`
  FROM `latest_rows` AS `l`
  LEFT JOIN `cells_lines` AS `r`
    ON `l`.`id` IS NOT DISTINCT FROM `r`.`id`
), `prices_facts` AS (
  /* one row per row fact */
  SELECT
    `id`,
    `prices`.`cells` AS `prices`
  FROM raw_orders
  WHERE
    `_kind` IN ('row') AND `prices` IS NOT NULL
), `prices_elements` AS (
  /* one row per element fact */
  SELECT
    `id`,
    EXPLODE(`prices`) AS `_element`
  FROM `prices_facts`
), `prices_paths` AS (
  /* one row per element fact */
  SELECT
    `id`,
    `_element`.`path` AS `_path_key`,
    `_element`
  FROM `prices_elements`
), `latest_prices_elements` AS (
  /* one row per row key and path */
  SELECT
    `id`, `_path_key`,
    MAX(
      NAMED_STRUCT('written', `_element`.`written`, 'rank', `_element`.`rank`, 'bytes', `_element`.`bytes`, 'value', `_element`.`value`)
    ) FILTER(WHERE `_element`.`written` IS NOT NULL) AS `_cell`
  FROM `prices_paths`
  GROUP BY
    `id`, `_path_key`
), `cells_prices` AS (
  /* one row per row key with elements */
  SELECT
    `id`,
    ARRAY_SORT(
      COLLECT_LIST(
        NAMED_STRUCT('key', `_path_key`, 'path', `_path_key`, 'written', `_cell`.`written`, 'rank', `_cell`.`rank`, 'value', `_cell`.`value`)
      )
    ) AS `_cells_prices`
  FROM `latest_prices_elements`
  GROUP BY
    `id`
), `covered_rows` AS (
  /* one row per row key */
  SELECT
    `l`.`id`, `l`.`_live`, `l`.`_deletion_lines`, `l`.`_deletion_prices`, `l`.`_cells_lines`, `r`.`_cells_prices`,
    `l`.`_deleted` AS `_scope`,
    ((UNIX_TIMESTAMP() + 1) * 2147483648) + (-9223372036854775807 - 1) AS `_clock`
  FROM `latest_rows_with_lines` AS `l`
  LEFT JOIN `cells_prices` AS `r`
    ON `l`.`id` IS NOT DISTINCT FROM `r`.`id`
), `judged_regular_cells` AS (
  /* one row per row key */
  SELECT
    `id`, `_live`,
    FILTER(
      `_cells_lines`,
      `_item` -> (
        GREATEST(`_scope`, `_deletion_lines`) IS NULL OR `_item`.`written` > GREATEST(`_scope`, `_deletion_lines`)
      )
      AND (
        `_item`.`rank` < -9223372036854775806 OR (
          `_item`.`rank` < 0 AND `_item`.`rank` >= `_clock`
        )
      )
    ) AS `_cells_lines`,
    FILTER(
      `_cells_prices`,
      `_item` -> (
        GREATEST(`_scope`, `_deletion_prices`) IS NULL OR `_item`.`written` > GREATEST(`_scope`, `_deletion_prices`)
      )
      AND (
        `_item`.`rank` < -9223372036854775806 OR (
          `_item`.`rank` < 0 AND `_item`.`rank` >= `_clock`
        )
      )
    ) AS `_cells_prices`,
    `_scope`, `_clock`
  FROM `covered_rows`
)
/* one row per visible row */
SELECT
  `id` AS `id`,
  CASE
    WHEN NOT COALESCE(ARRAY_SIZE(`_cells_lines`), 0) = 0
    THEN TRANSFORM(`_cells_lines`, `_item` -> `_item`.`value`)
  END AS `lines`,
  CASE
    WHEN NOT COALESCE(ARRAY_SIZE(`_cells_prices`), 0) = 0
    THEN MAP_FROM_ENTRIES(TRANSFORM(`_cells_prices`, `_item` -> NAMED_STRUCT('key', `_item`.`path`, 'value', `_item`.`value`)))
  END AS `prices`
FROM `judged_regular_cells`
WHERE
  (
    (`_scope` IS NULL OR `_live`.`written` > `_scope`)
    AND (`_live`.`rank` < -9223372036854775806 OR (`_live`.`rank` < 0 AND `_live`.`rank` >= `_clock`))
  )
  OR NOT COALESCE(ARRAY_SIZE(`_cells_lines`), 0) = 0
  OR NOT COALESCE(ARRAY_SIZE(`_cells_prices`), 0) = 0
