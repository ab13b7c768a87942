-- shop.orders: the latest cell of every column, one row per (id); by cdc-views, rules (C2, D1, ...) in docs/reference/semantics.md, raw layout 1
-- strategy aggregate, as asked for
CREATE OR REPLACE VIEW analytics.orders AS
WITH latest_rows AS (
  /* one row per row key: the latest cell of each column by write time, rank and value (C2); _cutoff is when it was last deleted or truncated (D2, S6); of equal times and ranks the larger bytes win (C2) */
  SELECT
    id,
    MAX(_live) AS _live,
    MAX(state) AS state,
    MAX(NAMED_STRUCT('written', price.written, 'rank', price.rank, 'bytes', price.bytes, 'value', price.value))
      FILTER(WHERE price.written IS NOT NULL) AS price,
    GREATEST(MAX(_deleted.written), (SELECT MAX(_deleted.written) FROM raw_orders WHERE _kind = 'table')) AS _cutoff
  FROM raw_orders
  WHERE _kind IN ('row', 'partition')
  GROUP BY id
)
/* one row per row of the view: a row exists if its last write is newer than _cutoff (S1); older cells become null (D1); a decimal that does not fit its type fails the query, and its error shows it */
SELECT
  id,
  CASE WHEN _cutoff IS NULL OR state.written > _cutoff THEN state.value END AS state,
  CASE
    WHEN price.written <= _cutoff THEN NULL
    WHEN price.value RLIKE '^-?(0*[0-9]{0,10}([.][0-9]{0,2}0*)?|0([.]0+)?E[+-][0-9]+|[0-9]([.][0-9]+)?E[+]([1-9]))$' THEN CAST(price.value AS DECIMAL(12, 2))
    WHEN NOT price.value IS NULL THEN RAISE_ERROR(price.value || ' does not fit decimal(12, 2) of price: update the schema file')
  END AS price
FROM latest_rows
WHERE (_cutoff IS NULL OR _live.written > _cutoff) AND _live.rank < 0
