-- shop.orders: the latest cell of every column, one row per (id); by cdc-views, rules (C2, D1, ...) in docs/reference/semantics.md, raw layout 1
-- strategy aggregate, as asked for
CREATE OR REPLACE VIEW analytics.orders AS
WITH latest_rows AS (
  /* one row per row key: the latest cell of each column by write time, rank and value (C2); _cutoff is when it was last deleted or truncated (D2, S6); of equal times and ranks the larger bytes win (C2) */
  SELECT
    id,
    (
      ARRAY_AGG(_live ORDER BY (_live).written DESC NULLS LAST, (_live).rank DESC NULLS LAST)
        FILTER(WHERE (_live).written IS NOT NULL)
    )[1] AS _live,
    (
      ARRAY_AGG(
        state ORDER BY (state).written DESC NULLS LAST, (state).rank DESC NULLS LAST, ((state).value) COLLATE "C" DESC NULLS LAST
      ) FILTER(WHERE (state).written IS NOT NULL)
    )[1] AS state,
    (
      ARRAY_AGG(price ORDER BY (price).written DESC NULLS LAST, (price).rank DESC NULLS LAST, (price).bytes DESC NULLS LAST) FILTER(WHERE (price).written IS NOT NULL)
    )[1] AS price,
    GREATEST(MAX((_deleted).written), (SELECT MAX((_deleted).written) FROM raw_orders AS _raw WHERE _kind = 'table')) AS _cutoff
  FROM raw_orders AS _raw
  WHERE _kind IN ('row', 'partition')
  GROUP BY id
)
/* one row per row of the view: a row exists if its last write is newer than _cutoff (S1); older cells become null (D1); a decimal that does not fit its type fails the query, and its error shows it */
SELECT
  id,
  CASE WHEN _cutoff IS NULL OR (state).written > _cutoff THEN (state).value END AS state,
  CAST(CASE
    WHEN (price).written <= _cutoff THEN NULL
    WHEN (price).value ~ '^-?(0*[0-9]{0,10}([.][0-9]{0,2}0*)?|0([.]0+)?E[+-][0-9]+|[0-9]([.][0-9]+)?E[+]([1-9]))$' THEN (price).value
    ELSE (price).value || ' does not fit decimal(12, 2) of price: update the schema file'
  END AS DECIMAL(12, 2)) AS price
FROM latest_rows
WHERE (_cutoff IS NULL OR (_live).written > _cutoff) AND (_live).rank < 0
