-- shop.orders: the latest cell of every column, one row per (id); by cdc-views, rules (C2, D1, ...) in docs/reference/semantics.md, raw layout 1
-- strategy aggregate, as asked for
CREATE OR REPLACE VIEW analytics.orders AS
WITH latest_rows AS (
  /* one row per row key: the latest cell of each column by write time, rank and value (C2); _key_id: bytes that are equal exactly where keys are (K1); of equal times and ranks the larger bytes win, and a negative number's are larger (C2) */
  SELECT
    id, _key_id,
    MAX(_live) AS _live,
    MAX(state) AS state,
    MAX(NAMED_STRUCT('written', amount.written, 'rank', amount.rank, 'bytes', amount.bytes, 'value', amount.value))
      FILTER(WHERE amount.written IS NOT NULL) AS amount,
    MAX(NAMED_STRUCT('written', `at`.written, 'rank', `at`.rank, 'negative', `at`.value < 0, 'value', `at`.value))
      FILTER(WHERE `at`.written IS NOT NULL) AS `at`,
    MAX(_deleted.written) AS _deleted
  FROM raw_orders
  WHERE _kind IN ('row', 'partition')
  GROUP BY id, _key_id
), covered_rows AS (
  /* one row per row key: _cutoff is when it was last deleted (D2); _now_rank is the present as a rank: an expiring cell below it has expired (C4) */
  SELECT
    id, _live, state, amount, `at`, _deleted AS _cutoff,
    UNIX_TIMESTAMP() * 2147483648 - 9223372034707292160 AS _now_rank
  FROM latest_rows
), judged_rows AS (
  /* one row per row key: a cell shows if no deletion covers it (D1) and it lives (C4); of ranks, which encode C2.2 to C2.5, the two lowest never expire, other negative ones are expiry times, those from 0 on are tombstones */
  SELECT
    id, _live, state, amount, `at`, _cutoff, _now_rank,
    (_cutoff IS NULL OR state.written > _cutoff)
    AND (state.rank < -9223372036854775806 OR state.rank BETWEEN _now_rank AND -1) AS _shows_state,
    (_cutoff IS NULL OR amount.written > _cutoff)
    AND (amount.rank < -9223372036854775806 OR amount.rank BETWEEN _now_rank AND -1) AS _shows_amount,
    (_cutoff IS NULL OR `at`.written > _cutoff)
    AND (`at`.rank < -9223372036854775806 OR `at`.rank BETWEEN _now_rank AND -1) AS _shows_at
  FROM covered_rows
)
/* one row per row of the view: a row exists if its marker _live or any regular cell shows (W2); times that the engine cannot hold are null */
SELECT
  id,
  CASE WHEN _shows_state THEN state.value END AS state,
  CASE WHEN _shows_amount THEN amount.value END AS amount,
  CASE
    WHEN _shows_at AND `at`.value BETWEEN -62135596800000 AND 253402300799999
    THEN TIMESTAMP_MILLIS(`at`.value)
  END AS `at`
FROM judged_rows
WHERE
  (
    (_cutoff IS NULL OR _live.written > _cutoff)
    AND (_live.rank < -9223372036854775806 OR _live.rank BETWEEN _now_rank AND -1)
  )
  OR _shows_state
  OR _shows_amount
  OR _shows_at
