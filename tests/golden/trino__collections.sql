-- shop.orders: the latest cell of every column, one row per (id); by cdc-views, rules (C2, D1, ...) in docs/reference/semantics.md, raw layout 1
-- strategy aggregate, as asked for
CREATE OR REPLACE VIEW analytics.orders AS
WITH latest_rows AS (
  /* one row per row key: the latest marker and deletions (W1, D1) */
  SELECT
    id,
    ELEMENT_AT(
      ARRAY_AGG(ROW(_live.written, _live.rank) ORDER BY _live.written DESC, _live.rank DESC)
        FILTER(WHERE _live.written IS NOT NULL),
      1
    ) AS _live,
    MAX(_deleted.written) AS _deleted,
    MAX(lines.deletion.written) AS _deletion_lines,
    MAX(prices.deletion.written) AS _deletion_prices
  FROM raw_orders AS _raw
  WHERE _kind IN ('row', 'partition')
  GROUP BY id
), lines_elements AS (
  /* one row per element of a fact (W4) */
  SELECT id, _element
  FROM raw_orders AS _raw
  CROSS JOIN UNNEST(TRANSFORM(lines.cells, _each -> ROW(_each))) AS _elements(_element)
  WHERE _kind = 'row' AND lines IS NOT NULL
), lines_paths AS (
  /* one row per element of a fact: _path_key identifies and orders a row's elements, _path shows them (W4, K1) */
  SELECT id, _element.key AS _path_key, _element.path AS _path, _element
  FROM lines_elements
), latest_lines_elements AS (
  /* one row per row key and path: the latest cell of each element (C2, W4); of equal times and ranks the larger bytes win, and a negative number's are larger (C2) */
  SELECT
    id, _path_key,
    ELEMENT_AT(
      ARRAY_AGG(
        ROW(_element.written, _element.rank, _element.value < 0, _element.value) ORDER BY _element.written DESC, _element.rank DESC, _element.value < 0 DESC, _element.value DESC
      ) FILTER(WHERE _element.written IS NOT NULL),
      1
    ) AS _cell,
    MIN(_path) AS _path
  FROM lines_paths
  GROUP BY id, _path_key
), cells_lines AS (
  /* one row per row key with elements: the elements in the order of their paths (W4) */
  SELECT
    id,
    ARRAY_AGG(ROW(_path_key, _path, _cell[1], _cell[2], _cell[4]) ORDER BY _path_key NULLS FIRST) AS _cells_lines
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
  SELECT id, _element
  FROM raw_orders AS _raw
  CROSS JOIN UNNEST(TRANSFORM(prices.cells, _each -> ROW(_each))) AS _elements(_element)
  WHERE _kind = 'row' AND prices IS NOT NULL
), prices_paths AS (
  /* one row per element of a fact: _path_key identifies and orders a row's elements (W4, K1) */
  SELECT id, _element.path AS _path_key, _element FROM prices_elements
), latest_prices_elements AS (
  /* one row per row key and path: the latest cell of each element (C2, W4); of equal times and ranks the larger bytes win (C2) */
  SELECT
    id, _path_key,
    ELEMENT_AT(
      ARRAY_AGG(
        ROW(_element.written, _element.rank, _element.bytes, _element.value) ORDER BY _element.written DESC, _element.rank DESC, _element.bytes DESC
      ) FILTER(WHERE _element.written IS NOT NULL),
      1
    ) AS _cell
  FROM prices_paths
  GROUP BY id, _path_key
), cells_prices AS (
  /* one row per row key with elements: the elements in the order of their paths (W4) */
  SELECT
    id,
    ARRAY_AGG(ROW(_path_key, _path_key, _cell[1], _cell[2], _cell[4]) ORDER BY _path_key NULLS FIRST) AS _cells_prices
  FROM latest_prices_elements
  GROUP BY id
), covered_rows AS (
  /* one row per row key: with the elements of prices (W4); _cutoff is when it was last deleted (D2); _now_rank is the present as a rank: an expiring cell below it has expired (C4) */
  SELECT
    l.id, l._live, l._deletion_lines, l._deletion_prices, l._cells_lines, r._cells_prices, l._deleted AS _cutoff,
    CAST(FLOOR(TO_UNIXTIME(NOW())) AS BIGINT) * 2147483648 - 9223372034707292160 AS _now_rank
  FROM latest_rows_with_lines AS l
  LEFT JOIN cells_prices AS r
    ON l.id IS NOT DISTINCT FROM r.id
), judged_rows AS (
  /* one row per row key: a cell shows if no deletion covers it (D1) and it lives (C4); of ranks, which encode C2.2 to C2.5, the two lowest never expire, other negative ones are expiry times, those from 0 on are tombstones */
  SELECT
    id, _live,
    FILTER(
      _cells_lines,
      _each -> (
        ARRAY_MAX(FILTER(ARRAY[_cutoff, _deletion_lines], _each -> _each IS NOT NULL)) IS NULL
        OR _each[3] > ARRAY_MAX(FILTER(ARRAY[_cutoff, _deletion_lines], _each -> _each IS NOT NULL))
      )
      AND (_each[4] < -9223372036854775806 OR _each[4] BETWEEN _now_rank AND -1)
    ) AS _cells_lines,
    FILTER(
      _cells_prices,
      _each -> (
        ARRAY_MAX(FILTER(ARRAY[_cutoff, _deletion_prices], _each -> _each IS NOT NULL)) IS NULL
        OR _each[3] > ARRAY_MAX(FILTER(ARRAY[_cutoff, _deletion_prices], _each -> _each IS NOT NULL))
      )
      AND (_each[4] < -9223372036854775806 OR _each[4] BETWEEN _now_rank AND -1)
    ) AS _cells_prices,
    _cutoff, _now_rank
  FROM covered_rows
)
/* one row per row of the view: a row exists if its marker _live or any regular cell shows (W2) */
SELECT
  id,
  CASE WHEN COALESCE(CARDINALITY(_cells_lines), 0) <> 0 THEN TRANSFORM(_cells_lines, _each -> _each[5]) END AS lines,
  CASE
    WHEN COALESCE(CARDINALITY(_cells_prices), 0) <> 0
    THEN TRANSFORM(_cells_prices, _each -> CAST(ROW(_each[2], _each[5]) AS ROW(key VARCHAR, value VARCHAR)))
  END AS prices
FROM judged_rows
WHERE
  (
    (_cutoff IS NULL OR _live[1] > _cutoff)
    AND (_live[2] < -9223372036854775806 OR _live[2] BETWEEN _now_rank AND -1)
  )
  OR COALESCE(CARDINALITY(_cells_lines), 0) <> 0
  OR COALESCE(CARDINALITY(_cells_prices), 0) <> 0
