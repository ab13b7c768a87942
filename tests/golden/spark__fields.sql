-- shop.orders: the latest cell of every column, one row per (id); by cdc-views, rules (C2, D1, ...) in docs/reference/semantics.md, raw layout 1
-- strategy aggregate, as asked for
CREATE OR REPLACE VIEW analytics.orders AS
WITH latest_rows AS (
  /* one row per row key: the latest cell of each column by write time, rank and value (C2); _cutoff is when it was last deleted (D2); _now_rank is the present as a rank: an expiring cell below it has expired (C4); of equal times and ranks the larger bytes win, and a negative number's are larger (C2) */
  SELECT
    id,
    MAX(_live) AS _live,
    MAX(home.cells.street) AS _field_home_0,
    MAX(
      NAMED_STRUCT(
        'written', home.cells.x__5aip_20_43ode.written,
        'rank', home.cells.x__5aip_20_43ode.rank,
        'negative', home.cells.x__5aip_20_43ode.value < 0,
        'value', home.cells.x__5aip_20_43ode.value
      )
    ) FILTER(WHERE home.cells.x__5aip_20_43ode.written IS NOT NULL) AS _field_home_1,
    MAX(home.deletion.written) AS _deletion_home,
    MAX(_deleted.written) AS _cutoff,
    UNIX_TIMESTAMP() * 2147483648 - 9223372034707292160 AS _now_rank
  FROM raw_orders
  WHERE _kind IN ('row', 'partition')
  GROUP BY id
), judged_rows AS (
  /* one row per row key: a cell shows if no deletion covers it (D1) and it lives (C4); of ranks, which encode C2.2 to C2.5, the two lowest never expire, other negative ones are expiry times, those from 0 on are tombstones */
  SELECT
    id, _live, _field_home_0, _field_home_1, _cutoff, _now_rank,
    (GREATEST(_cutoff, _deletion_home) IS NULL OR _field_home_0.written > GREATEST(_cutoff, _deletion_home))
    AND (_field_home_0.rank < -9223372036854775806 OR _field_home_0.rank BETWEEN _now_rank AND -1) AS _shows__field_home_0,
    (GREATEST(_cutoff, _deletion_home) IS NULL OR _field_home_1.written > GREATEST(_cutoff, _deletion_home))
    AND (_field_home_1.rank < -9223372036854775806 OR _field_home_1.rank BETWEEN _now_rank AND -1) AS _shows__field_home_1
  FROM latest_rows
)
/* one row per row of the view: a row exists if its marker _live or any regular cell shows (W2) */
SELECT
  id,
  CASE
    WHEN _shows__field_home_0 OR _shows__field_home_1
    THEN NAMED_STRUCT(
      'street', CASE WHEN _shows__field_home_0 THEN _field_home_0.value END,
      'x__5aip_20_43ode', CASE WHEN _shows__field_home_1 THEN _field_home_1.value END
    )
  END AS home
FROM judged_rows
WHERE
  (
    (_cutoff IS NULL OR _live.written > _cutoff)
    AND (_live.rank < -9223372036854775806 OR _live.rank BETWEEN _now_rank AND -1)
  )
  OR _shows__field_home_0
  OR _shows__field_home_1
