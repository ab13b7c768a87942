-- shop.orders: the latest cell of every column, one row per (id); by cdc-views, rules (C2, D1, ...) in docs/reference/semantics.md, raw layout 1
-- strategy aggregate, as asked for
CREATE OR REPLACE VIEW analytics.orders AS
WITH latest_rows AS (
  /* one row per row key: the latest cell of each column by write time, rank and value (C2); _key_id: bytes that are equal exactly where keys are (K1); of equal times and ranks the larger bytes win, and a negative number's are larger (C2) */
  SELECT
    id, _key_id,
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
        tupleElement(amount, 'written'),
        tupleElement(amount, 'rank'),
        tupleElement(amount, 'bytes'),
        tupleElement(amount, 'value')
      ),
      tuple(tupleElement(amount, 'written'), tupleElement(amount, 'rank'), tupleElement(amount, 'bytes')),
      tupleElement(amount, 'written') IS NOT NULL
    ) AS amount,
    argMaxIf(
      tuple(
        tupleElement("at", 'written'),
        tupleElement("at", 'rank'),
        tupleElement("at", 'value') < 0,
        tupleElement("at", 'value')
      ),
      tuple(
        tupleElement("at", 'written'),
        tupleElement("at", 'rank'),
        tupleElement("at", 'value') < 0,
        tupleElement("at", 'value')
      ),
      tupleElement("at", 'written') IS NOT NULL
    ) AS "at",
    max(tupleElement(_deleted, 'written')) AS _deleted
  FROM raw_orders AS _raw
  WHERE _kind IN ('row', 'partition')
  GROUP BY id, _key_id
), covered_rows AS (
  /* one row per row key: _cutoff is when it was last deleted (D2); _now_rank is the present as a rank: an expiring cell below it has expired (C4) */
  SELECT
    id, _live, state, amount, "at", _deleted AS _cutoff,
    toInt64(toUnixTimestamp(now())) * 2147483648 - 9223372034707292160 AS _now_rank
  FROM latest_rows
), judged_rows AS (
  /* one row per row key: a cell shows if no deletion covers it (D1) and it lives (C4); of ranks, which encode C2.2 to C2.5, the two lowest never expire, other negative ones are expiry times, those from 0 on are tombstones */
  SELECT
    id, _live, state, amount, "at", _cutoff, _now_rank,
    (_cutoff IS NULL OR tupleElement(state, 1) > _cutoff)
    AND (tupleElement(state, 2) < -9223372036854775806 OR tupleElement(state, 2) BETWEEN _now_rank AND -1) AS _shows_state,
    (_cutoff IS NULL OR tupleElement(amount, 1) > _cutoff)
    AND (tupleElement(amount, 2) < -9223372036854775806 OR tupleElement(amount, 2) BETWEEN _now_rank AND -1) AS _shows_amount,
    (_cutoff IS NULL OR tupleElement("at", 1) > _cutoff)
    AND (tupleElement("at", 2) < -9223372036854775806 OR tupleElement("at", 2) BETWEEN _now_rank AND -1) AS _shows_at
  FROM covered_rows
)
/* one row per row of the view: a row exists if its marker _live or any regular cell shows (W2); times that the engine cannot hold are null */
SELECT
  id,
  CASE WHEN _shows_state THEN tupleElement(state, 3) END AS state,
  CASE WHEN _shows_amount THEN tupleElement(amount, 4) END AS amount,
  CASE
    WHEN _shows_at AND tupleElement("at", 4) BETWEEN -2208988800000 AND 10413791999999
    THEN fromUnixTimestamp64Milli(tupleElement("at", 4), 'UTC')
  END AS "at"
FROM judged_rows
WHERE
  (
    (_cutoff IS NULL OR tupleElement(_live, 1) > _cutoff)
    AND (tupleElement(_live, 2) < -9223372036854775806 OR tupleElement(_live, 2) BETWEEN _now_rank AND -1)
  )
  OR _shows_state
  OR _shows_amount
  OR _shows_at
SETTINGS join_use_nulls = 1, prefer_column_name_to_alias = 1
