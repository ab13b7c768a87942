-- shop.orders: the latest cell of every column, one row per (id); by cdc-views, rules (C2, D1, ...) in docs/reference/semantics.md, raw layout 1
-- strategy aggregate, as asked for
CREATE OR REPLACE VIEW analytics.orders AS
WITH latest_rows AS (
  /* one row per row key: the latest cell of each column by write time, rank and value (C2); of equal times and ranks the larger bytes win (C2) */
  SELECT
    id,
    ELEMENT_AT(
      ARRAY_AGG(ROW(_live.written, _live.rank) ORDER BY _live.written DESC, _live.rank DESC)
        FILTER(WHERE _live.written IS NOT NULL),
      1
    ) AS _live,
    ELEMENT_AT(
      ARRAY_AGG(ROW(state.written, state.rank, state.value) ORDER BY state.written DESC, state.rank DESC, state.value DESC) FILTER(WHERE state.written IS NOT NULL),
      1
    ) AS state,
    ELEMENT_AT(
      ARRAY_AGG(
        ROW(price.written, price.rank, price.bytes, price.value) ORDER BY price.written DESC, price.rank DESC, price.bytes DESC
      ) FILTER(WHERE price.written IS NOT NULL),
      1
    ) AS price,
    MAX(_deleted.written) AS _deleted
  FROM raw_orders AS _raw
  WHERE _kind IN ('row', 'partition')
  GROUP BY id
), covered_rows AS (
  /* one row per row key: _cutoff is when it was last deleted or truncated (D2, S6) */
  SELECT
    id, _live, state, price,
    ARRAY_MAX(FILTER(ARRAY[_deleted, (SELECT MAX(_deleted.written) FROM raw_orders AS _raw WHERE _kind = 'table')], _each -> _each IS NOT NULL)) AS _cutoff
  FROM latest_rows
)
/* one row per row of the view: a row exists if its last write is newer than _cutoff (S1); older cells become null (D1); a decimal that does not fit its type fails the query, and its error shows it */
SELECT
  id,
  CASE WHEN _cutoff IS NULL OR state[1] > _cutoff THEN state[3] END AS state,
  CAST(CASE
    WHEN price[1] <= _cutoff THEN NULL
    WHEN REGEXP_LIKE(price[4], '^-?(0*[0-9]{0,10}([.][0-9]{0,2}0*)?|0([.]0+)?E[+-][0-9]+|[0-9]([.][0-9]+)?E[+]([1-9]))$') THEN price[4]
    ELSE price[4] || ' does not fit decimal(12, 2) of price: update the schema file'
  END AS DECIMAL(12, 2)) AS price
FROM covered_rows
WHERE (_cutoff IS NULL OR _live[1] > _cutoff) AND _live[2] < 0
