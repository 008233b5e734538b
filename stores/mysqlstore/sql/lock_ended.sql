-- Locks records that have ended, unless another transaction has: such as one that runs a key again.
SELECT k, first_fence, state FROM {{claims}} FORCE INDEX (PRIMARY)
WHERE k IN ({{firsts}}) AND (k, first_fence) IN ({{rows: (?, ?)}}) AND state > 2 ORDER BY k FOR UPDATE SKIP LOCKED
