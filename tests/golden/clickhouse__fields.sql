-- shop.orders: the latest cell of every column, one row per (id); by cdc-views, rules (C2, D1, ...) in docs/reference/semantics.md, raw layout 1
-- strategy aggregate, as asked for
CREATE OR REPLACE VIEW analytics.orders AS
WITH latest_rows AS (
  /* one row per row key: the latest cell of each column by write time, rank and value (C2); of equal times and ranks the larger bytes win, and a negative number's are larger (C2) */
  SELECT
    id,
    argMaxIf(
      tuple(tupleElement(_live, 'written'), tupleElement(_live, 'rank')),
      tuple(tupleElement(_live, 'written'), tupleElement(_live, 'rank')),
      tupleElement(_live, 'written') IS NOT NULL
    ) AS _live,
    argMaxIf(
      tuple(
        tupleElement(tupleElement(tupleElement(home, 'cells'), 'street'), 'written'),
        tupleElement(tupleElement(tupleElement(home, 'cells'), 'street'), 'rank'),
        tupleElement(tupleElement(tupleElement(home, 'cells'), 'street'), 'value')
      ),
      tuple(
        tupleElement(tupleElement(tupleElement(home, 'cells'), 'street'), 'written'),
        tupleElement(tupleElement(tupleElement(home, 'cells'), 'street'), 'rank'),
        tupleElement(tupleElement(tupleElement(home, 'cells'), 'street'), 'value')
      ),
      tupleElement(tupleElement(tupleElement(home, 'cells'), 'street'), 'written') IS NOT NULL
    ) AS _field_home_0,
    argMaxIf(
      tuple(
        tupleElement(tupleElement(tupleElement(home, 'cells'), 'x__5aip_20_43ode'), 'written'),
        tupleElement(tupleElement(tupleElement(home, 'cells'), 'x__5aip_20_43ode'), 'rank'),
        tupleElement(tupleElement(tupleElement(home, 'cells'), 'x__5aip_20_43ode'), 'value') < 0,
        tupleElement(tupleElement(tupleElement(home, 'cells'), 'x__5aip_20_43ode'), 'value')
      ),
      tuple(
        tupleElement(tupleElement(tupleElement(home, 'cells'), 'x__5aip_20_43ode'), 'written'),
        tupleElement(tupleElement(tupleElement(home, 'cells'), 'x__5aip_20_43ode'), 'rank'),
        tupleElement(tupleElement(tupleElement(home, 'cells'), 'x__5aip_20_43ode'), 'value') < 0,
        tupleElement(tupleElement(tupleElement(home, 'cells'), 'x__5aip_20_43ode'), 'value')
      ),
      tupleElement(tupleElement(tupleElement(home, 'cells'), 'x__5aip_20_43ode'), 'written') IS NOT NULL
    ) AS _field_home_1,
    max(tupleElement(_deleted, 'written')) AS _deleted,
    max(tupleElement(tupleElement(home, 'deletion'), 'written')) AS _deletion_home
  FROM raw_orders AS _raw
  WHERE _kind IN ('row', 'partition')
  GROUP BY id
), covered_rows AS (
  /* one row per row key: _cutoff is when it was last deleted (D2); _now_rank is the present as a rank: an expiring cell below it has expired (C4) */
  SELECT
    id, _live, _field_home_0, _field_home_1, _deletion_home, _deleted AS _cutoff,
    toInt64(toUnixTimestamp(now())) * 2147483648 - 9223372034707292160 AS _now_rank
  FROM latest_rows
), judged_rows AS (
  /* one row per row key: a cell shows if no deletion covers it (D1) and it lives (C4); of ranks, which encode C2.2 to C2.5, the two lowest never expire, other negative ones are expiry times, those from 0 on are tombstones */
  SELECT
    id, _live, _field_home_0, _field_home_1, _cutoff, _now_rank,
    (
      COALESCE(GREATEST(_cutoff, _deletion_home), _cutoff, _deletion_home) IS NULL
      OR tupleElement(_field_home_0, 1) > COALESCE(GREATEST(_cutoff, _deletion_home), _cutoff, _deletion_home)
    )
    AND (
      tupleElement(_field_home_0, 2) < -9223372036854775806 OR tupleElement(_field_home_0, 2) BETWEEN _now_rank AND -1
    ) AS _shows__field_home_0,
    (
      COALESCE(GREATEST(_cutoff, _deletion_home), _cutoff, _deletion_home) IS NULL
      OR tupleElement(_field_home_1, 1) > COALESCE(GREATEST(_cutoff, _deletion_home), _cutoff, _deletion_home)
    )
    AND (
      tupleElement(_field_home_1, 2) < -9223372036854775806 OR tupleElement(_field_home_1, 2) BETWEEN _now_rank AND -1
    ) AS _shows__field_home_1
  FROM covered_rows
)
/* one row per row of the view: a row exists if its marker _live or any regular cell shows (W2) */
SELECT
  id,
  if(
    _shows__field_home_0 OR _shows__field_home_1,
    CAST(
      tuple(
        CASE WHEN _shows__field_home_0 THEN tupleElement(_field_home_0, 3) END,
        CASE WHEN _shows__field_home_1 THEN tupleElement(_field_home_1, 4) END
      ),
      'Tuple(street Nullable(String), x__5aip_20_43ode Nullable(Int32))'
    ),
    defaultValueOfArgumentType(
      CAST(
        tuple(
          CASE WHEN _shows__field_home_0 THEN tupleElement(_field_home_0, 3) END,
          CASE WHEN _shows__field_home_1 THEN tupleElement(_field_home_1, 4) END
        ),
        'Tuple(street Nullable(String), x__5aip_20_43ode Nullable(Int32))'
      )
    )
  ) AS home
FROM judged_rows
WHERE
  (
    (_cutoff IS NULL OR tupleElement(_live, 1) > _cutoff)
    AND (tupleElement(_live, 2) < -9223372036854775806 OR tupleElement(_live, 2) BETWEEN _now_rank AND -1)
  )
  OR _shows__field_home_0
  OR _shows__field_home_1
SETTINGS join_use_nulls = 1, prefer_column_name_to_alias = 1
