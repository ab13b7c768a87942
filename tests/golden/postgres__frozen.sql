-- shop.orders: the latest cell of every column, one row per (id); by cdc-views, rules (C2, D1, ...) in docs/reference/semantics.md, raw layout 1
-- strategy aggregate, as asked for
CREATE OR REPLACE VIEW analytics.orders AS
WITH latest_rows AS (
  /* one row per row key: the latest cell of each column by write time, rank and value (C2); _cutoff is when it was last deleted (D2); _now_rank is the present as a rank: an expiring cell below it has expired (C4); of equal times and ranks the larger bytes win (C2) */
  SELECT
    id,
    (
      ARRAY_AGG(_live ORDER BY (_live).written DESC NULLS LAST, (_live).rank DESC NULLS LAST)
        FILTER(WHERE (_live).written IS NOT NULL)
    )[1] AS _live,
    (
      ARRAY_AGG(tags ORDER BY (tags).written DESC NULLS LAST, (tags).rank DESC NULLS LAST, (tags).bytes DESC NULLS LAST) FILTER(WHERE (tags).written IS NOT NULL)
    )[1] AS tags,
    (
      ARRAY_AGG(home ORDER BY (home).written DESC NULLS LAST, (home).rank DESC NULLS LAST, (home).bytes DESC NULLS LAST) FILTER(WHERE (home).written IS NOT NULL)
    )[1] AS home,
    MAX((_deleted).written) AS _cutoff,
    CAST(FLOOR(EXTRACT(EPOCH FROM NOW())) AS BIGINT) * 2147483648 - 9223372034707292160 AS _now_rank
  FROM raw_orders AS _raw
  WHERE _kind IN ('row', 'partition')
  GROUP BY id
), judged_rows AS (
  /* one row per row key: a cell shows if no deletion covers it (D1) and it lives (C4); of ranks, which encode C2.2 to C2.5, the two lowest never expire, other negative ones are expiry times, those from 0 on are tombstones */
  SELECT
    id, _live, tags, home, _cutoff, _now_rank,
    (_cutoff IS NULL OR (tags).written > _cutoff)
    AND ((tags).rank < -9223372036854775806 OR (tags).rank BETWEEN _now_rank AND -1) AS _shows_tags,
    (_cutoff IS NULL OR (home).written > _cutoff)
    AND ((home).rank < -9223372036854775806 OR (home).rank BETWEEN _now_rank AND -1) AS _shows_home
  FROM latest_rows
)
/* one row per row of the view: a row exists if its marker _live or any regular cell shows (W2) */
SELECT
  id,
  CASE WHEN _shows_tags THEN (tags).value END AS tags,
  CASE WHEN _shows_home THEN (home).value END AS home
FROM judged_rows
WHERE
  (
    (_cutoff IS NULL OR (_live).written > _cutoff)
    AND ((_live).rank < -9223372036854775806 OR (_live).rank BETWEEN _now_rank AND -1)
  )
  OR _shows_tags
  OR _shows_home
