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
      ARRAY_AGG(ROW(tags.written, tags.rank, tags.bytes, tags.value) ORDER BY tags.written DESC, tags.rank DESC, tags.bytes DESC) FILTER(WHERE tags.written IS NOT NULL),
      1
    ) AS tags,
    ELEMENT_AT(
      ARRAY_AGG(ROW(home.written, home.rank, home.bytes, home.value) ORDER BY home.written DESC, home.rank DESC, home.bytes DESC) FILTER(WHERE home.written IS NOT NULL),
      1
    ) AS home,
    MAX(_deleted.written) AS _deleted
  FROM raw_orders AS _raw
  WHERE _kind IN ('row', 'partition')
  GROUP BY id
), covered_rows AS (
  /* one row per row key: _cutoff is when it was last deleted (D2); _now_rank is the present as a rank: an expiring cell below it has expired (C4) */
  SELECT
    id, _live, tags, home, _deleted AS _cutoff,
    CAST(FLOOR(TO_UNIXTIME(NOW())) AS BIGINT) * 2147483648 - 9223372034707292160 AS _now_rank
  FROM latest_rows
), judged_rows AS (
  /* one row per row key: a cell shows if no deletion covers it (D1) and it lives (C4); of ranks, which encode C2.2 to C2.5, the two lowest never expire, other negative ones are expiry times, those from 0 on are tombstones */
  SELECT
    id, _live, tags, home, _cutoff, _now_rank,
    (_cutoff IS NULL OR tags[1] > _cutoff) AND (tags[2] < -9223372036854775806 OR tags[2] BETWEEN _now_rank AND -1) AS _shows_tags,
    (_cutoff IS NULL OR home[1] > _cutoff) AND (home[2] < -9223372036854775806 OR home[2] BETWEEN _now_rank AND -1) AS _shows_home
  FROM covered_rows
)
/* one row per row of the view: a row exists if its marker _live or any regular cell shows (W2) */
SELECT
  id,
  CASE WHEN _shows_tags THEN tags[4] END AS tags,
  CASE
    WHEN _shows_home AND home[4] IS NOT NULL
    THEN CAST(ROW(home[4].street, home[4].x__5aip_20_43ode) AS ROW(street VARCHAR, "Zip Code" INTEGER))
  END AS home
FROM judged_rows
WHERE
  (
    (_cutoff IS NULL OR _live[1] > _cutoff)
    AND (_live[2] < -9223372036854775806 OR _live[2] BETWEEN _now_rank AND -1)
  )
  OR _shows_tags
  OR _shows_home
