-- shop.orders: the latest cell of every column, one row per (id); by cdc-views, rules (C2, D1, ...) in docs/reference/semantics.md, raw layout 1
-- strategy aggregate, as asked for
CREATE OR REPLACE VIEW analytics.orders AS
WITH latest_rows AS (
  /* one row per row key: the latest marker and deletions (W1, D1) */
  SELECT
    id,
    argMaxIf(
      tuple(tupleElement(_live, 'written'), tupleElement(_live, 'rank')),
      tuple(tupleElement(_live, 'written'), tupleElement(_live, 'rank')),
      tupleElement(_live, 'written') IS NOT NULL
    ) AS _live,
    max(tupleElement(_deleted, 'written')) AS _deleted,
    max(tupleElement(tupleElement(lines, 'deletion'), 'written')) AS _deletion_lines,
    max(tupleElement(tupleElement(prices, 'deletion'), 'written')) AS _deletion_prices
  FROM raw_orders AS _raw
  WHERE _kind IN ('row', 'partition')
  GROUP BY id
), lines_elements AS (
  /* one row per element of a fact (W4) */
  SELECT
    id,
    arrayJoin(tupleElement(lines, 'cells')) AS _element
  FROM raw_orders AS _raw
  WHERE _kind = 'row' AND TRUE
), lines_paths AS (
  /* one row per element of a fact: _path_key identifies and orders a row's elements, _path shows them (W4, K1) */
  SELECT
    id,
    tupleElement(_element, 'key') AS _path_key,
    tupleElement(_element, 'path') AS _path,
    _element
  FROM lines_elements
), latest_lines_elements AS (
  /* one row per row key and path: the latest cell of each element (C2, W4); of equal times and ranks the larger bytes win, and a negative number's are larger (C2) */
  SELECT
    id, _path_key,
    argMaxIf(
      tuple(
        tupleElement(_element, 'written'),
        tupleElement(_element, 'rank'),
        tupleElement(_element, 'value') < 0,
        tupleElement(_element, 'value')
      ),
      tuple(
        tupleElement(_element, 'written'),
        tupleElement(_element, 'rank'),
        tupleElement(_element, 'value') < 0,
        tupleElement(_element, 'value')
      ),
      tupleElement(_element, 'written') IS NOT NULL
    ) AS _cell,
    min(_path) AS _path
  FROM lines_paths
  GROUP BY id, _path_key
), cells_lines AS (
  /* one row per row key with elements: the elements in the order of their paths (W4) */
  SELECT
    id,
    arraySort(
      _each -> tuple(isNotNull(tupleElement(_each, 1)), tupleElement(_each, 1)),
      groupArray(tuple(_path_key, _path, tupleElement(_cell, 1), tupleElement(_cell, 2), tupleElement(_cell, 4)))
    ) AS _cells_lines
  FROM latest_lines_elements
  GROUP BY id
), latest_rows_with_lines AS (
  /* one row per row key: with the elements of lines (W4) */
  SELECT l.id, l._live, l._deleted, l._deletion_lines, l._deletion_prices, r._cells_lines
  FROM latest_rows AS l
  LEFT JOIN cells_lines AS r
    ON l.id IS NOT DISTINCT FROM r.id
), prices_elements AS (
  /* one row per element of a fact (W4) */
  SELECT
    id,
    arrayJoin(tupleElement(prices, 'cells')) AS _element
  FROM raw_orders AS _raw
  WHERE _kind = 'row' AND TRUE
), prices_paths AS (
  /* one row per element of a fact: _path_key identifies and orders a row's elements (W4, K1) */
  SELECT id, tupleElement(_element, 'path') AS _path_key, _element FROM prices_elements
), latest_prices_elements AS (
  /* one row per row key and path: the latest cell of each element (C2, W4); of equal times and ranks the larger bytes win (C2) */
  SELECT
    id, _path_key,
    argMaxIf(
      tuple(
        tupleElement(_element, 'written'),
        tupleElement(_element, 'rank'),
        tupleElement(_element, 'bytes'),
        tupleElement(_element, 'value')
      ),
      tuple(tupleElement(_element, 'written'), tupleElement(_element, 'rank'), tupleElement(_element, 'bytes')),
      tupleElement(_element, 'written') IS NOT NULL
    ) AS _cell
  FROM prices_paths
  GROUP BY id, _path_key
), cells_prices AS (
  /* one row per row key with elements: the elements in the order of their paths (W4) */
  SELECT
    id,
    arraySort(
      _each -> tuple(isNotNull(tupleElement(_each, 1)), tupleElement(_each, 1)),
      groupArray(tuple(_path_key, _path_key, tupleElement(_cell, 1), tupleElement(_cell, 2), tupleElement(_cell, 4)))
    ) AS _cells_prices
  FROM latest_prices_elements
  GROUP BY id
), covered_rows AS (
  /* one row per row key: with the elements of prices (W4); _cutoff is when it was last deleted (D2); _now_rank is the present as a rank: an expiring cell below it has expired (C4) */
  SELECT
    l.id, l._live, l._deletion_lines, l._deletion_prices, l._cells_lines, r._cells_prices, l._deleted AS _cutoff,
    toInt64(toUnixTimestamp(now())) * 2147483648 - 9223372034707292160 AS _now_rank
  FROM latest_rows_with_lines AS l
  LEFT JOIN cells_prices AS r
    ON l.id IS NOT DISTINCT FROM r.id
), judged_rows AS (
  /* one row per row key: a cell shows if no deletion covers it (D1) and it lives (C4); of ranks, which encode C2.2 to C2.5, the two lowest never expire, other negative ones are expiry times, those from 0 on are tombstones */
  SELECT
    id, _live,
    arrayFilter(
      _each -> (
        COALESCE(GREATEST(_cutoff, _deletion_lines), _cutoff, _deletion_lines) IS NULL
        OR tupleElement(_each, 3) > COALESCE(GREATEST(_cutoff, _deletion_lines), _cutoff, _deletion_lines)
      )
      AND (tupleElement(_each, 4) < -9223372036854775806 OR tupleElement(_each, 4) BETWEEN _now_rank AND -1),
      _cells_lines
    ) AS _cells_lines,
    arrayFilter(
      _each -> (
        COALESCE(GREATEST(_cutoff, _deletion_prices), _cutoff, _deletion_prices) IS NULL
        OR tupleElement(_each, 3) > COALESCE(GREATEST(_cutoff, _deletion_prices), _cutoff, _deletion_prices)
      )
      AND (tupleElement(_each, 4) < -9223372036854775806 OR tupleElement(_each, 4) BETWEEN _now_rank AND -1),
      _cells_prices
    ) AS _cells_prices,
    _cutoff, _now_rank
  FROM covered_rows
)
/* one row per row of the view: a row exists if its marker _live or any regular cell shows (W2) */
SELECT
  id,
  if(
    COALESCE(length(_cells_lines), 0) <> 0,
    arrayMap(_each -> tupleElement(_each, 5), _cells_lines),
    defaultValueOfArgumentType(arrayMap(_each -> tupleElement(_each, 5), _cells_lines))
  ) AS lines,
  if(
    COALESCE(length(_cells_prices), 0) <> 0,
    arrayMap(
      _each -> CAST(tuple(tupleElement(_each, 2), tupleElement(_each, 5)), 'Tuple(key Nullable(String), value Nullable(String))'),
      _cells_prices
    ),
    defaultValueOfArgumentType(
      arrayMap(
        _each -> CAST(tuple(tupleElement(_each, 2), tupleElement(_each, 5)), 'Tuple(key Nullable(String), value Nullable(String))'),
        _cells_prices
      )
    )
  ) AS prices
FROM judged_rows
WHERE
  (
    (_cutoff IS NULL OR tupleElement(_live, 1) > _cutoff)
    AND (tupleElement(_live, 2) < -9223372036854775806 OR tupleElement(_live, 2) BETWEEN _now_rank AND -1)
  )
  OR COALESCE(length(_cells_lines), 0) <> 0
  OR COALESCE(length(_cells_prices), 0) <> 0
SETTINGS join_use_nulls = 1, prefer_column_name_to_alias = 1
