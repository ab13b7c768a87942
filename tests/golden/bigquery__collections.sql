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
    MAX(`_deleted`.`written`) AS `_deleted`,
    MAX(`lines`.`deletion`.`written`) AS `_deletion_lines`,
    MAX(`prices`.`deletion`.`written`) AS `_deletion_prices`
  FROM raw_orders AS `_raw`
  WHERE
    `_kind` IN ('row', 'partition')
  GROUP BY
    `id`
), `lines_facts` AS (
  /* one row per row fact */
  SELECT
    `id`,
    `lines`.`cells` AS `lines`
  FROM raw_orders AS `_raw`
  WHERE
    `_kind` IN ('row') AND `lines` IS NOT NULL
), `lines_elements` AS (
  /* one row per element fact */
  SELECT
    `id`, `_element`
  FROM `lines_facts`
  CROSS JOIN UNNEST(`lines`) AS `_element`
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
    ARRAY_AGG(
      IF(
        `_element`.`written` IS NOT NULL,
        STRUCT(
          `_element`.`written` AS `written`,
          `_element`.`rank` AS `rank`,
          `_element`.`value` < 0 AS `negative`,
          `_element`.`value` AS `value`
        ),
        NULL
      ) IGNORE NULLS ORDER BY `_element`.`written` DESC, `_element`.`rank` DESC, `_element`.`value` < 0 DESC, `_element`.`value` DESC
      LIMIT 1
    )[SAFE_OFFSET(0)] AS `_cell`,
    ARRAY_AGG(IF(`_path` IS NOT NULL, STRUCT(`_path` AS `boxed`), NULL) IGNORE NULLS ORDER BY TO_JSON_STRING(`_path`)
    LIMIT 1)[SAFE_OFFSET(0)].`boxed` AS `_path`
  FROM `lines_paths`
  GROUP BY
    `id`, `_path_key`
), `cells_lines` AS (
  /* one row per row key with elements */
  SELECT
    `id`,
    ARRAY_AGG(
      STRUCT(
        `_path_key` AS `key`,
        `_path` AS `path`,
        `_cell`.`written` AS `written`,
        `_cell`.`rank` AS `rank`,
        `_cell`.`value` AS `value`
      ) IGNORE NULLS ORDER BY `_path_key`
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
    ON `l`.`id` = `r`.`id`
), `prices_facts` AS (
  /* one row per row fact */
  SELECT
    `id`,
    `prices`.`cells` AS `prices`
  FROM raw_orders AS `_raw`
  WHERE
    `_kind` IN ('row') AND `prices` IS NOT NULL
), `prices_elements` AS (
  /* one row per element fact */
  SELECT
    `id`, `_element`
  FROM `prices_facts`
  CROSS JOIN UNNEST(`prices`) AS `_element`
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
    ARRAY_AGG(
      IF(
        `_element`.`written` IS NOT NULL,
        STRUCT(
          `_element`.`written` AS `written`,
          `_element`.`rank` AS `rank`,
          `_element`.`bytes` AS `bytes`,
          `_element`.`value` AS `value`
        ),
        NULL
      ) IGNORE NULLS ORDER BY `_element`.`written` DESC, `_element`.`rank` DESC, `_element`.`bytes` DESC
      LIMIT 1
    )[SAFE_OFFSET(0)] AS `_cell`
  FROM `prices_paths`
  GROUP BY
    `id`, `_path_key`
), `cells_prices` AS (
  /* one row per row key with elements */
  SELECT
    `id`,
    ARRAY_AGG(
      STRUCT(
        `_path_key` AS `key`,
        `_path_key` AS `path`,
        `_cell`.`written` AS `written`,
        `_cell`.`rank` AS `rank`,
        `_cell`.`value` AS `value`
      ) IGNORE NULLS ORDER BY `_path_key`
    ) AS `_cells_prices`
  FROM `latest_prices_elements`
  GROUP BY
    `id`
), `covered_rows` AS (
  /* one row per row key */
  SELECT
    `l`.`id`, `l`.`_live`, `l`.`_deletion_lines`, `l`.`_deletion_prices`, `l`.`_cells_lines`, `r`.`_cells_prices`,
    `l`.`_deleted` AS `_scope`,
    ((UNIX_SECONDS(CURRENT_TIMESTAMP()) + 1) * 2147483648) + (-9223372036854775807 - 1) AS `_clock`
  FROM `latest_rows_with_lines` AS `l`
  LEFT JOIN `cells_prices` AS `r`
    ON `l`.`id` = `r`.`id`
), `judged_regular_cells` AS (
  /* one row per row key */
  SELECT
    `id`, `_live`,
    ARRAY(
      SELECT
        `_item`
      FROM UNNEST(`_cells_lines`) AS `_item` WITH OFFSET AS `_offset`
      WHERE
        (
          (SELECT MAX(`_item`) FROM UNNEST([`_scope`, `_deletion_lines`]) AS `_item`) IS NULL
          OR `_item`.`written` > (SELECT MAX(`_item`) FROM UNNEST([`_scope`, `_deletion_lines`]) AS `_item`)
        )
        AND (`_item`.`rank` < -9223372036854775806 OR (`_item`.`rank` < 0 AND `_item`.`rank` >= `_clock`))
      ORDER BY
        `_offset`
    ) AS `_cells_lines`,
    ARRAY(
      SELECT
        `_item`
      FROM UNNEST(`_cells_prices`) AS `_item` WITH OFFSET AS `_offset`
      WHERE
        (
          (SELECT MAX(`_item`) FROM UNNEST([`_scope`, `_deletion_prices`]) AS `_item`) IS NULL
          OR `_item`.`written` > (SELECT MAX(`_item`) FROM UNNEST([`_scope`, `_deletion_prices`]) AS `_item`)
        )
        AND (`_item`.`rank` < -9223372036854775806 OR (`_item`.`rank` < 0 AND `_item`.`rank` >= `_clock`))
      ORDER BY
        `_offset`
    ) AS `_cells_prices`,
    `_scope`, `_clock`
  FROM `covered_rows`
)
/* one row per visible row */
SELECT
  `id` AS `id`,
  CASE
    WHEN NOT COALESCE(ARRAY_LENGTH(`_cells_lines`), 0) = 0
    THEN ARRAY(SELECT `_item`.`value` FROM UNNEST(`_cells_lines`) AS `_item` WITH OFFSET AS `_offset` ORDER BY `_offset`)
  END AS `lines`,
  CASE
    WHEN NOT COALESCE(ARRAY_LENGTH(`_cells_prices`), 0) = 0
    THEN ARRAY(
      SELECT
        STRUCT(`_item`.`path` AS `key`, `_item`.`value` AS `value`)
      FROM UNNEST(`_cells_prices`) AS `_item` WITH OFFSET AS `_offset`
      ORDER BY
        `_offset`
    )
  END AS `prices`
FROM `judged_regular_cells`
WHERE
  (
    (`_scope` IS NULL OR `_live`.`written` > `_scope`)
    AND (`_live`.`rank` < -9223372036854775806 OR (`_live`.`rank` < 0 AND `_live`.`rank` >= `_clock`))
  )
  OR NOT COALESCE(ARRAY_LENGTH(`_cells_lines`), 0) = 0
  OR NOT COALESCE(ARRAY_LENGTH(`_cells_prices`), 0) = 0
