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
      tuple(tupleElement(tags, 'written'), tupleElement(tags, 'rank'), tupleElement(tags, 'bytes'), tupleElement(tags, 'value')),
      tuple(tupleElement(tags, 'written'), tupleElement(tags, 'rank'), tupleElement(tags, 'bytes')),
      tupleElement(tags, 'written') IS NOT NULL
    ) AS tags,
    argMaxIf(
      tuple(tupleElement(home, 'written'), tupleElement(home, 'rank'), tupleElement(home, 'bytes'), tupleElement(home, 'value')),
      tuple(tupleElement(home, 'written'), tupleElement(home, 'rank'), tupleElement(home, 'bytes')),
      tupleElement(home, 'written') IS NOT NULL
    ) AS home,
    max(tupleElement(_deleted, 'written')) AS _deleted
  FROM raw_orders AS _raw
  WHERE _kind IN ('row', 'partition')
  GROUP BY id
), covered_rows AS (
  /* one row per row key: _cutoff is when it was last deleted (D2); _now_rank is the present as a rank: an expiring cell below it has expired (C4) */
  SELECT
    id, _live, tags, home, _deleted AS _cutoff,
    toInt64(toUnixTimestamp(now())) * 2147483648 - 9223372034707292160 AS _now_rank
  FROM latest_rows
), judged_rows AS (
  /* one row per row key: a cell shows if no deletion covers it (D1) and it lives (C4); of ranks, which encode C2.2 to C2.5, the two lowest never expire, other negative ones are expiry times, those from 0 on are tombstones */
  SELECT
    id, _live, tags, home, _cutoff, _now_rank,
    (_cutoff IS NULL OR tupleElement(tags, 1) > _cutoff)
    AND (tupleElement(tags, 2) < -9223372036854775806 OR tupleElement(tags, 2) BETWEEN _now_rank AND -1) AS _shows_tags,
    (_cutoff IS NULL OR tupleElement(home, 1) > _cutoff)
    AND (tupleElement(home, 2) < -9223372036854775806 OR tupleElement(home, 2) BETWEEN _now_rank AND -1) AS _shows_home
  FROM covered_rows
)
/* one row per row of the view: a row exists if its marker _live or any regular cell shows (W2) */
SELECT
  id,
  if(_shows_tags, tupleElement(tags, 4), defaultValueOfArgumentType(tupleElement(tags, 4))) AS tags,
  if(
    _shows_home,
    CAST(
      tuple(tupleElement(tupleElement(home, 4), 'street'), tupleElement(tupleElement(home, 4), 'x__5aip_20_43ode')),
      'Tuple(street Nullable(String), "Zip Code" Nullable(Int32))'
    ),
    defaultValueOfArgumentType(
      CAST(
        tuple(tupleElement(tupleElement(home, 4), 'street'), tupleElement(tupleElement(home, 4), 'x__5aip_20_43ode')),
        'Tuple(street Nullable(String), "Zip Code" Nullable(Int32))'
      )
    )
  ) AS home
FROM judged_rows
WHERE
  (
    (_cutoff IS NULL OR tupleElement(_live, 1) > _cutoff)
    AND (tupleElement(_live, 2) < -9223372036854775806 OR tupleElement(_live, 2) BETWEEN _now_rank AND -1)
  )
  OR _shows_tags
  OR _shows_home
SETTINGS join_use_nulls = 1, prefer_column_name_to_alias = 1
