-- shop.orders: the latest cell of every column, one row per (id); by cdc-views, rules (C2, D1, ...) in docs/reference/semantics.md, raw layout 1
-- strategy aggregate, as asked for
CREATE OR REPLACE VIEW analytics.orders AS
WITH latest_rows AS (
  /* one row per row key: the latest cell of each column by write time, rank and value (C2); of equal times and ranks the larger bytes win (C2) */
  SELECT
    id,
    argMaxIf(
      tuple(tupleElement(_live, 'written'), tupleElement(_live, 'rank')),
      tuple(tupleElement(_live, 'written'), tupleElement(_live, 'rank')),
      tupleElement(_live, 'written') IS NOT NULL
    ) AS _live,
    argMaxIf(
      tuple(tupleElement(state, 'written'), tupleElement(state, 'rank'), tupleElement(state, 'value')),
      tuple(tupleElement(state, 'written'), tupleElement(state, 'rank'), tupleElement(state, 'value')),
      tupleElement(state, 'written') IS NOT NULL
    ) AS state,
    argMaxIf(
      tuple(
        tupleElement(price, 'written'),
        tupleElement(price, 'rank'),
        tupleElement(price, 'bytes'),
        tupleElement(price, 'value')
      ),
      tuple(tupleElement(price, 'written'), tupleElement(price, 'rank'), tupleElement(price, 'bytes')),
      tupleElement(price, 'written') IS NOT NULL
    ) AS price,
    max(tupleElement(_deleted, 'written')) AS _deleted
  FROM raw_orders AS _raw
  WHERE _kind IN ('row', 'partition')
  GROUP BY id
), covered_rows AS (
  /* one row per row key: _cutoff is when it was last deleted or truncated (D2, S6) */
  SELECT
    id, _live, state, price,
    arrayReduce('max', [_deleted, (SELECT max(tupleElement(_deleted, 'written')) FROM raw_orders AS _raw WHERE _kind = 'table')]) AS _cutoff
  FROM latest_rows
)
/* one row per row of the view: a row exists if its last write is newer than _cutoff (S1); older cells become null (D1); a decimal that does not fit its type fails the query, and its error shows it */
SELECT
  id,
  CASE WHEN _cutoff IS NULL OR tupleElement(state, 1) > _cutoff THEN tupleElement(state, 3) END AS state,
  CAST(CASE
    WHEN tupleElement(price, 1) <= _cutoff
    THEN NULL
    WHEN match(tupleElement(price, 4), '^-?(0*[0-9]{0,10}([.][0-9]{0,2}0*)?|0([.]0+)?E[+-][0-9]+|[0-9]([.][0-9]+)?E[+]([1-9]))$')
    THEN tupleElement(price, 4)
    ELSE tupleElement(price, 4) || ' does not fit decimal(12, 2) of price: update the schema file'
  END AS Nullable(Decimal(12, 2))) AS price
FROM covered_rows
WHERE (_cutoff IS NULL OR tupleElement(_live, 1) > _cutoff) AND tupleElement(_live, 2) < 0
SETTINGS join_use_nulls = 1, prefer_column_name_to_alias = 1
