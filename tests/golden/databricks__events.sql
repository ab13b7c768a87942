-- shop.orders: the latest cell of every column, one row per (id); by cdc-views, rules (C2, D1, ...) in docs/reference/semantics.md, raw layout 1
-- strategy aggregate, as asked for
CREATE OR REPLACE VIEW analytics.orders AS
WITH events AS (
  /* one row per event: _log_position orders a row's events (S2); _gone: the event deletes the row; none before the last truncate counts (S6) */
  SELECT
    id, state, price,
    COALESCE(_live.written, _deleted.written) AS _log_position,
    _deleted.written IS NOT NULL AS _gone
  FROM raw_orders
  WHERE _kind IN ('row', 'partition') AND COALESCE(COALESCE(_live.written, _deleted.written) > (SELECT MAX(_deleted.written) FROM raw_orders WHERE _kind = 'table'), TRUE)
), latest_rows AS (
  /* one row per row key: each column from the newest event that has it (S4); a deletion clears all (D1) */
  SELECT
    id,
    MAX_BY(_gone, _log_position) AS _gone,
    MAX_BY(state.value, _log_position) FILTER(WHERE _gone OR state.rank IS NOT NULL) AS state,
    MAX_BY(price.value, _log_position) FILTER(WHERE _gone OR price.rank IS NOT NULL) AS price
  FROM events
  GROUP BY id
)
/* one row per row of the view: a row exists if its newest event is no deletion (S1); a decimal that does not fit its type fails the query, and its error shows it */
SELECT
  id, state,
  CASE
    WHEN REGEXP_LIKE(price, '^-?(0*[0-9]{0,10}([.][0-9]{0,2}0*)?|0([.]0+)?E[+-][0-9]+|[0-9]([.][0-9]+)?E[+]([1-9]))$') THEN CAST(price AS DECIMAL(12, 2))
    WHEN NOT price IS NULL THEN RAISE_ERROR(price || ' does not fit decimal(12, 2) of price: update the schema file')
  END AS price
FROM latest_rows
WHERE NOT _gone
