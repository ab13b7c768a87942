-- shop.orders: the latest cell of every column, one row per (id); by cdc-views, rules (C2, D1, ...) in docs/reference/semantics.md, raw layout 1
-- strategy aggregate, as asked for
CREATE OR REPLACE VIEW analytics.orders AS
WITH latest_rows AS (
  /* one row per row key: the latest cell of each column by write time, rank and value (C2); _key_id: bytes that are equal exactly where keys are (K1); of equal times and ranks the larger bytes win, and a negative number's are larger (C2) */
  SELECT
    id, _key_id,
    ELEMENT_AT(
      ARRAY_AGG(ROW(_live.written, _live.rank) ORDER BY _live.written DESC, _live.rank DESC)
        FILTER(WHERE _live.written IS NOT NULL),
      1
    ) AS _live,
    ELEMENT_AT(
      ARRAY_AGG(ROW(state.written, state.rank, state.value) ORDER BY state.written DESC, state.rank DESC, state.value DESC) FILTER(WHERE state.written IS NOT NULL),
      1
    ) AS state,
    ELEMENT_AT(
      ARRAY_AGG(
        ROW(amount.written, amount.rank, amount.bytes, amount.value) ORDER BY amount.written DESC, amount.rank DESC, amount.bytes DESC
      ) FILTER(WHERE amount.written IS NOT NULL),
      1
    ) AS amount,
    ELEMENT_AT(
      ARRAY_AGG(
        ROW("at".written, "at".rank, "at".value < 0, "at".value) ORDER BY "at".written DESC, "at".rank DESC, "at".value < 0 DESC, "at".value DESC
      ) FILTER(WHERE "at".written IS NOT NULL),
      1
    ) AS "at",
    MAX(_deleted.written) AS _deleted
  FROM raw_orders AS _raw
  WHERE _kind IN ('row', 'partition')
  GROUP BY id, _key_id
), covered_rows AS (
  /* one row per row key: _cutoff is when it was last deleted (D2); _now_rank is the present as a rank: an expiring cell below it has expired (C4) */
  SELECT
    id, _live, state, amount, "at", _deleted AS _cutoff,
    CAST(FLOOR(TO_UNIXTIME(NOW())) AS BIGINT) * 2147483648 - 9223372034707292160 AS _now_rank
  FROM latest_rows
), judged_rows AS (
  /* one row per row key: a cell shows if no deletion covers it (D1) and it lives (C4); of ranks, which encode C2.2 to C2.5, the two lowest never expire, other negative ones are expiry times, those from 0 on are tombstones */
  SELECT
    id, _live, state, amount, "at", _cutoff, _now_rank,
    (_cutoff IS NULL OR state[1] > _cutoff)
    AND (state[2] < -9223372036854775806 OR state[2] BETWEEN _now_rank AND -1) AS _shows_state,
    (_cutoff IS NULL OR amount[1] > _cutoff)
    AND (amount[2] < -9223372036854775806 OR amount[2] BETWEEN _now_rank AND -1) AS _shows_amount,
    (_cutoff IS NULL OR "at"[1] > _cutoff) AND ("at"[2] < -9223372036854775806 OR "at"[2] BETWEEN _now_rank AND -1) AS _shows_at
  FROM covered_rows
)
/* one row per row of the view: a row exists if its marker _live or any regular cell shows (W2); times that the engine cannot hold are null */
SELECT
  id,
  CASE WHEN _shows_state THEN state[3] END AS state,
  CASE WHEN _shows_amount THEN amount[4] END AS amount,
  CASE
    WHEN _shows_at AND "at"[4] BETWEEN -62135596800000 AND 253402300799999
    THEN CAST(FROM_UNIXTIME_NANOS(CAST("at"[4] AS DECIMAL(38, 0)) * 1000000) AS TIMESTAMP(3) WITH TIME ZONE)
  END AS "at"
FROM judged_rows
WHERE
  (
    (_cutoff IS NULL OR _live[1] > _cutoff)
    AND (_live[2] < -9223372036854775806 OR _live[2] BETWEEN _now_rank AND -1)
  )
  OR _shows_state
  OR _shows_amount
  OR _shows_at
