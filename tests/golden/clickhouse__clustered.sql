-- shop.orders: the latest cell of every column, one row per (shop, day), and one per partition that has live static columns but no row (W3)
-- by cdc-views, rules (C2, D1, ...) in docs/reference/semantics.md, raw layout 1
-- strategy aggregate, as asked for
CREATE OR REPLACE VIEW analytics.orders AS
WITH latest_rows AS (
  /* one row per row key: the latest cell of each column by write time, rank and value (C2); of equal times and ranks the larger bytes win, and a negative number's are larger (C2) */
  SELECT
    shop, day,
    argMaxIf(
      tuple(tupleElement(_live, 'written'), tupleElement(_live, 'rank')),
      tuple(tupleElement(_live, 'written'), tupleElement(_live, 'rank')),
      tupleElement(_live, 'written') IS NOT NULL
    ) AS _live,
    argMaxIf(
      tuple(
        tupleElement(total, 'written'),
        tupleElement(total, 'rank'),
        tupleElement(total, 'value') < 0,
        tupleElement(total, 'value')
      ),
      tuple(
        tupleElement(total, 'written'),
        tupleElement(total, 'rank'),
        tupleElement(total, 'value') < 0,
        tupleElement(total, 'value')
      ),
      tupleElement(total, 'written') IS NOT NULL
    ) AS total,
    max(tupleElement(_deleted, 'written')) AS _deleted
  FROM raw_orders AS _raw
  WHERE _kind = 'row'
  GROUP BY shop, day
), partition_facts AS (
  /* one row per fact (partition, range, static) */
  SELECT
    shop,
    CASE WHEN _kind = 'partition' THEN tupleElement(_deleted, 'written') END AS _partition_deleted,
    if(
      _kind = 'range' AND tupleElement(_deleted, 'written') IS NOT NULL,
      tuple(tupleElement(_deleted, 'written'), _from, _to),
      defaultValueOfArgumentType(tuple(tupleElement(_deleted, 'written'), _from, _to))
    ) AS _ranges,
    title
  FROM raw_orders AS _raw
  WHERE _kind IN ('partition', 'range', 'static')
), latest_partitions AS (
  /* one row per partition: the latest cell of each static column (C2); the time of its last deletion, and its deleted ranges (D2) */
  SELECT
    shop,
    argMaxIf(
      tuple(tupleElement(title, 'written'), tupleElement(title, 'rank'), tupleElement(title, 'value')),
      tuple(tupleElement(title, 'written'), tupleElement(title, 'rank'), tupleElement(title, 'value')),
      tupleElement(title, 'written') IS NOT NULL
    ) AS title,
    max(_partition_deleted) AS _partition_deleted,
    arraySort(
      _each -> tuple(isNotNull(tupleElement(_each, 1)), tupleElement(_each, 1)),
      groupArrayIf(_ranges, tupleElement(_ranges, 1) IS NOT NULL)
    ) AS _ranges
  FROM partition_facts
  GROUP BY shop
), covered_rows AS (
  /* one row per row key: _cutoff is when it was last deleted (D2); bounds of ranges compare in clustering order, one of size 0 is open (D2); _now_rank is the present as a rank: an expiring cell below it has expired (C4) */
  SELECT
    l.shop, l.day, l._live, l.total, r.title, r._partition_deleted,
    arrayReduce(
      'max',
      [
        l._deleted,
        r._partition_deleted,
        arrayReduce(
          'max',
          arrayMap(
            _each -> tupleElement(_each, 1),
            arrayFilter(
              _each -> CASE
                WHEN tupleElement(tupleElement(_each, 2), 'size') <= 0
                THEN TRUE
                WHEN l.day IS NULL AND tupleElement(tupleElement(_each, 2), 'day') IS NOT NULL
                THEN TRUE
                WHEN l.day IS NOT NULL AND tupleElement(tupleElement(_each, 2), 'day') IS NULL
                THEN FALSE
                WHEN l.day < tupleElement(tupleElement(_each, 2), 'day')
                THEN TRUE
                WHEN l.day <> tupleElement(tupleElement(_each, 2), 'day')
                THEN FALSE
                ELSE tupleElement(tupleElement(_each, 2), 'inclusive')
              END
              AND CASE
                WHEN tupleElement(tupleElement(_each, 3), 'size') <= 0
                THEN TRUE
                WHEN l.day IS NULL AND tupleElement(tupleElement(_each, 3), 'day') IS NOT NULL
                THEN FALSE
                WHEN l.day IS NOT NULL AND tupleElement(tupleElement(_each, 3), 'day') IS NULL
                THEN TRUE
                WHEN l.day > tupleElement(tupleElement(_each, 3), 'day')
                THEN TRUE
                WHEN l.day <> tupleElement(tupleElement(_each, 3), 'day')
                THEN FALSE
                ELSE tupleElement(tupleElement(_each, 3), 'inclusive')
              END,
              r._ranges
            )
          )
        )
      ]
    ) AS _cutoff,
    toInt64(toUnixTimestamp(now())) * 2147483648 - 9223372034707292160 AS _now_rank
  FROM latest_rows AS l
  LEFT JOIN latest_partitions AS r
    ON l.shop = r.shop
), judged_rows AS (
  /* one row per row key: a cell shows if no deletion covers it (D1) and it lives (C4); of ranks, which encode C2.2 to C2.5, the two lowest never expire, other negative ones are expiry times, those from 0 on are tombstones */
  SELECT
    shop, day, _live, total, title, _cutoff, _now_rank,
    (_cutoff IS NULL OR tupleElement(total, 1) > _cutoff)
    AND (tupleElement(total, 2) < -9223372036854775806 OR tupleElement(total, 2) BETWEEN _now_rank AND -1) AS _shows_total,
    (_partition_deleted IS NULL OR tupleElement(title, 1) > _partition_deleted)
    AND (tupleElement(title, 2) < -9223372036854775806 OR tupleElement(title, 2) BETWEEN _now_rank AND -1) AS _shows_title
  FROM covered_rows
), visible_rows AS (
  /* one row per visible row: a row exists if its marker _live or any regular cell shows (W2) */
  SELECT
    shop, shop AS _view_shop, day, day AS _view_day,
    CASE WHEN _shows_total THEN tupleElement(total, 4) END AS total,
    CASE WHEN _shows_title THEN tupleElement(title, 3) END AS title,
    TRUE AS _is_row
  FROM judged_rows
  WHERE
    (
      (_cutoff IS NULL OR tupleElement(_live, 1) > _cutoff)
      AND (tupleElement(_live, 2) < -9223372036854775806 OR tupleElement(_live, 2) BETWEEN _now_rank AND -1)
    )
    OR _shows_total
), judged_partitions AS (
  /* one row per partition: a cell shows if no deletion covers it (D1) and it lives (C4); of ranks, which encode C2.2 to C2.5, the two lowest never expire, other negative ones are expiry times, those from 0 on are tombstones */
  SELECT
    shop, title,
    (_partition_deleted IS NULL OR tupleElement(title, 1) > _partition_deleted)
    AND (
      tupleElement(title, 2) < -9223372036854775806
      OR tupleElement(title, 2) BETWEEN toInt64(toUnixTimestamp(now())) * 2147483648 - 9223372034707292160 AND -1
    ) AS _shows_title
  FROM latest_partitions
), static_rows AS (
  /* one row per partition with live statics */
  SELECT
    shop, shop AS _view_shop, NULL AS day, NULL AS _view_day, NULL AS total,
    CASE WHEN _shows_title THEN tupleElement(title, 3) END AS title,
    FALSE AS _is_row
  FROM judged_partitions
  WHERE _shows_title
), rows_and_static_rows AS (
  /* one row per visible row or static row */
  SELECT shop, _view_shop, day, _view_day, total, title, _is_row
  FROM visible_rows
  UNION ALL
  SELECT shop, _view_shop, NULL AS day, NULL AS _view_day, NULL AS total, title, _is_row
  FROM static_rows
), rows_with_has_row AS (
  /* one row per visible row or static row: _has_row tells whether a row of its partition exists (W3) */
  SELECT
    _view_shop, _view_day, total, title, _is_row,
    MAX(CASE WHEN _is_row THEN 1 ELSE 0 END) OVER (PARTITION BY shop) = 1 AS _has_row
  FROM rows_and_static_rows
)
/* one row per row of the view: a partition's static columns show alone if it has no row (W3) */
SELECT
  _view_shop AS shop, _view_day AS day, title, total
FROM rows_with_has_row
WHERE _is_row OR NOT _has_row
SETTINGS join_use_nulls = 1, prefer_column_name_to_alias = 1
