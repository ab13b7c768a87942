-- shop.orders: the latest cell of every column, one row per (id); by cdc-views, rules (C2, D1, ...) in docs/reference/semantics.md, raw layout 1
-- strategy aggregate, as asked for
CREATE OR REPLACE VIEW analytics.orders AS
WITH latest_rows AS (
  /* one row per row key: the latest cell of each column by write time, rank and value (C2); of equal times and ranks the larger bytes win, and a negative number's are larger (C2) */
  SELECT
    id,
    ELEMENT_AT(
      ARRAY_AGG(ROW(_live.written, _live.rank) ORDER BY _live.written DESC, _live.rank DESC)
        FILTER(WHERE _live.written IS NOT NULL),
      1
    ) AS _live,
    ELEMENT_AT(
      ARRAY_AGG(
        ROW(home.cells.street.written, home.cells.street.rank, home.cells.street.value) ORDER BY home.cells.street.written DESC, home.cells.street.rank DESC, home.cells.street.value DESC
      ) FILTER(WHERE home.cells.street.written IS NOT NULL),
      1
    ) AS _field_home_0,
    ELEMENT_AT(
      ARRAY_AGG(
        ROW(
          home.cells.x__5aip_20_43ode.written,
          home.cells.x__5aip_20_43ode.rank,
          home.cells.x__5aip_20_43ode.value < 0,
          home.cells.x__5aip_20_43ode.value
        ) ORDER BY home.cells.x__5aip_20_43ode.written DESC, home.cells.x__5aip_20_43ode.rank DESC, home.cells.x__5aip_20_43ode.value < 0 DESC, home.cells.x__5aip_20_43ode.value DESC
      ) FILTER(WHERE home.cells.x__5aip_20_43ode.written IS NOT NULL),
      1
    ) AS _field_home_1,
    MAX(_deleted.written) AS _deleted,
    MAX(home.deletion.written) AS _deletion_home
  FROM raw_orders AS _raw
  WHERE _kind IN ('row', 'partition')
  GROUP BY id
), covered_rows AS (
  /* one row per row key: _cutoff is when it was last deleted (D2); _now_rank is the present as a rank: an expiring cell below it has expired (C4) */
  SELECT
    id, _live, _field_home_0, _field_home_1, _deletion_home, _deleted AS _cutoff,
    CAST(FLOOR(TO_UNIXTIME(NOW())) AS BIGINT) * 2147483648 - 9223372034707292160 AS _now_rank
  FROM latest_rows
), judged_rows AS (
  /* one row per row key: a cell shows if no deletion covers it (D1) and it lives (C4); of ranks, which encode C2.2 to C2.5, the two lowest never expire, other negative ones are expiry times, those from 0 on are tombstones */
  SELECT
    id, _live, _field_home_0, _field_home_1, _cutoff, _now_rank,
    (
      ARRAY_MAX(FILTER(ARRAY[_cutoff, _deletion_home], _each -> _each IS NOT NULL)) IS NULL
      OR _field_home_0[1] > ARRAY_MAX(FILTER(ARRAY[_cutoff, _deletion_home], _each -> _each IS NOT NULL))
    )
    AND (_field_home_0[2] < -9223372036854775806 OR _field_home_0[2] BETWEEN _now_rank AND -1) AS _shows__field_home_0,
    (
      ARRAY_MAX(FILTER(ARRAY[_cutoff, _deletion_home], _each -> _each IS NOT NULL)) IS NULL
      OR _field_home_1[1] > ARRAY_MAX(FILTER(ARRAY[_cutoff, _deletion_home], _each -> _each IS NOT NULL))
    )
    AND (_field_home_1[2] < -9223372036854775806 OR _field_home_1[2] BETWEEN _now_rank AND -1) AS _shows__field_home_1
  FROM covered_rows
)
/* one row per row of the view: a row exists if its marker _live or any regular cell shows (W2) */
SELECT
  id,
  CASE
    WHEN _shows__field_home_0 OR _shows__field_home_1
    THEN CAST(ROW(CASE WHEN _shows__field_home_0 THEN _field_home_0[3] END, CASE WHEN _shows__field_home_1 THEN _field_home_1[4] END) AS ROW(street VARCHAR, x__5aip_20_43ode INTEGER))
  END AS home
FROM judged_rows
WHERE
  (
    (_cutoff IS NULL OR _live[1] > _cutoff)
    AND (_live[2] < -9223372036854775806 OR _live[2] BETWEEN _now_rank AND -1)
  )
  OR _shows__field_home_0
  OR _shows__field_home_1
