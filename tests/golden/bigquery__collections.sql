-- shop.orders: the latest cell of every column, one row per (id); by cdc-views, rules (C2, D1, ...) in docs/reference/semantics.md, raw layout 1
-- strategy aggregate, as asked for
CREATE OR REPLACE VIEW analytics.orders AS
WITH latest_rows AS (
  /* one row per row key: the latest marker and deletions (W1, D1) */
  SELECT
    id,
    ARRAY_AGG(_live IGNORE NULLS ORDER BY _live.written DESC, _live.rank DESC LIMIT 1)[SAFE_OFFSET(0)] AS _live,
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
  CROSS JOIN UNNEST(lines.cells) AS _element
  WHERE _kind = 'row' AND lines IS NOT NULL
), lines_paths AS (
  /* one row per element of a fact: _path_key identifies and orders a row's elements, _path shows them (W4, K1) */
  SELECT id, _element.key AS _path_key, _element.path AS _path, _element
  FROM lines_elements
), latest_lines_elements AS (
  /* one row per row key and path: the latest cell of each element (C2, W4); of equal times and ranks the larger bytes win, and a negative number's are larger (C2) */
  SELECT
    id, _path_key,
    ARRAY_AGG(_element IGNORE NULLS ORDER BY _element.written DESC, _element.rank DESC, _element.value < 0 DESC, _element.value DESC LIMIT 1)[SAFE_OFFSET(0)] AS _cell,
    ARRAY_AGG(IF(_path IS NOT NULL, STRUCT(_path AS boxed), NULL) IGNORE NULLS ORDER BY TO_JSON_STRING(_path) LIMIT 1)[SAFE_OFFSET(0)].boxed AS _path
  FROM lines_paths
  GROUP BY id, _path_key
), cells_lines AS (
  /* one row per row key with elements: the elements in the order of their paths (W4) */
  SELECT
    id,
    ARRAY_AGG(STRUCT(_path_key AS key, _path AS path, _cell.written AS written, _cell.rank AS rank, _cell.value AS value) IGNORE NULLS ORDER BY _path_key) AS _cells_lines
  FROM latest_lines_elements
  GROUP BY id
), latest_rows_with_lines AS (
  /* one row per row key: with the elements of lines (W4) */
  SELECT l.id, l._live, l._deleted, l._deletion_lines, l._deletion_prices, r._cells_lines
  FROM latest_rows AS l
  LEFT JOIN cells_lines AS r
    ON l.id = r.id
), prices_elements AS (
  /* one row per element of a fact (W4) */
  SELECT id, _element
  FROM raw_orders AS _raw
  CROSS JOIN UNNEST(prices.cells) AS _element
  WHERE _kind = 'row' AND prices IS NOT NULL
), prices_paths AS (
  /* one row per element of a fact: _path_key identifies and orders a row's elements (W4, K1) */
  SELECT id, _element.path AS _path_key, _element FROM prices_elements
), latest_prices_elements AS (
  /* one row per row key and path: the latest cell of each element (C2, W4); of equal times and ranks the larger bytes win (C2) */
  SELECT
    id, _path_key,
    ARRAY_AGG(_element IGNORE NULLS ORDER BY _element.written DESC, _element.rank DESC, _element.bytes DESC LIMIT 1)[SAFE_OFFSET(0)] AS _cell
  FROM prices_paths
  GROUP BY id, _path_key
), cells_prices AS (
  /* one row per row key with elements: the elements in the order of their paths (W4) */
  SELECT
    id,
    ARRAY_AGG(STRUCT(_path_key AS key, _path_key AS path, _cell.written AS written, _cell.rank AS rank, _cell.value AS value) IGNORE NULLS ORDER BY _path_key) AS _cells_prices
  FROM latest_prices_elements
  GROUP BY id
), covered_rows AS (
  /* one row per row key: with the elements of prices (W4); _cutoff is when it was last deleted (D2); _now_rank is the present as a rank: an expiring cell below it has expired (C4) */
  SELECT
    l.id, l._live, l._deletion_lines, l._deletion_prices, l._cells_lines, r._cells_prices, l._deleted AS _cutoff,
    UNIX_SECONDS(CURRENT_TIMESTAMP()) * 2147483648 - 9223372034707292160 AS _now_rank
  FROM latest_rows_with_lines AS l
  LEFT JOIN cells_prices AS r
    ON l.id = r.id
), judged_rows AS (
  /* one row per row key: a cell shows if no deletion covers it (D1) and it lives (C4); of ranks, which encode C2.2 to C2.5, the two lowest never expire, other negative ones are expiry times, those from 0 on are tombstones */
  SELECT
    id, _live,
    ARRAY(
      SELECT _each
      FROM UNNEST(_cells_lines) AS _each WITH OFFSET AS _offset
      WHERE
        (
          COALESCE(GREATEST(_cutoff, _deletion_lines), _cutoff, _deletion_lines) IS NULL
          OR _each.written > COALESCE(GREATEST(_cutoff, _deletion_lines), _cutoff, _deletion_lines)
        )
        AND (_each.rank < -9223372036854775806 OR _each.rank BETWEEN _now_rank AND -1)
      ORDER BY _offset
    ) AS _cells_lines,
    ARRAY(
      SELECT _each
      FROM UNNEST(_cells_prices) AS _each WITH OFFSET AS _offset
      WHERE
        (
          COALESCE(GREATEST(_cutoff, _deletion_prices), _cutoff, _deletion_prices) IS NULL
          OR _each.written > COALESCE(GREATEST(_cutoff, _deletion_prices), _cutoff, _deletion_prices)
        )
        AND (_each.rank < -9223372036854775806 OR _each.rank BETWEEN _now_rank AND -1)
      ORDER BY _offset
    ) AS _cells_prices,
    _cutoff, _now_rank
  FROM covered_rows
)
/* one row per row of the view: a row exists if its marker _live or any regular cell shows (W2) */
SELECT
  id,
  CASE WHEN COALESCE(ARRAY_LENGTH(_cells_lines), 0) <> 0 THEN ARRAY(SELECT _each.value FROM UNNEST(_cells_lines) AS _each WITH OFFSET AS _offset ORDER BY _offset) END AS lines,
  CASE
    WHEN COALESCE(ARRAY_LENGTH(_cells_prices), 0) <> 0
    THEN ARRAY(SELECT STRUCT(_each.path AS key, _each.value AS value) FROM UNNEST(_cells_prices) AS _each WITH OFFSET AS _offset ORDER BY _offset)
  END AS prices
FROM judged_rows
WHERE
  (
    (_cutoff IS NULL OR _live.written > _cutoff)
    AND (_live.rank < -9223372036854775806 OR _live.rank BETWEEN _now_rank AND -1)
  )
  OR COALESCE(ARRAY_LENGTH(_cells_lines), 0) <> 0
  OR COALESCE(ARRAY_LENGTH(_cells_prices), 0) <> 0
