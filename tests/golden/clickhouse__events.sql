-- shop.orders: the latest cell of every column, one row per (id); by cdc-views, rules (C2, D1, ...) in docs/reference/semantics.md, raw layout 1
-- strategy aggregate, as asked for
CREATE OR REPLACE VIEW analytics.orders AS
WITH events AS (
  /* one row per event: _log_position orders a row's events (S2); _gone: the event deletes the row; none before the last truncate counts (S6) */
  SELECT
    id, state, price,
    COALESCE(tupleElement(_live, 'written'), tupleElement(_deleted, 'written')) AS _log_position,
    tupleElement(_deleted, 'written') IS NOT NULL AS _gone
  FROM raw_orders AS _raw
  WHERE
    _kind IN ('row', 'partition')
    AND COALESCE(COALESCE(tupleElement(_live, 'written'), tupleElement(_deleted, 'written')) > (SELECT max(tupleElement(_deleted, 'written')) FROM raw_orders AS _raw WHERE _kind = 'table'), TRUE)
), latest_rows AS (
  /* one row per row key: each column from the newest event that has it (S4); a deletion clears all (D1) */
  SELECT
    id,
    tupleElement(argMax(tuple(_gone), _log_position), 1) AS _gone,
    tupleElement(argMaxIf(tuple(tupleElement(state, 'value')), _log_position, _gone OR tupleElement(state, 'rank') IS NOT NULL), 1) AS state,
    tupleElement(argMaxIf(tuple(tupleElement(price, 'value')), _log_position, _gone OR tupleElement(price, 'rank') IS NOT NULL), 1) AS price
  FROM events
  GROUP BY id
)
/* one row per row of the view: a row exists if its newest event is no deletion (S1); a decimal that does not fit its type fails the query, and its error shows it */
SELECT
  id, state,
  CAST(CASE
    WHEN match(price, '^-?(0*[0-9]{0,10}([.][0-9]{0,2}0*)?|0([.]0+)?E[+-][0-9]+|[0-9]([.][0-9]+)?E[+]([1-9]))$') THEN price
    ELSE price || ' does not fit decimal(12, 2) of price: update the schema file'
  END AS Nullable(Decimal(12, 2))) AS price
FROM latest_rows
WHERE NOT _gone
SETTINGS join_use_nulls = 1, prefer_column_name_to_alias = 1
