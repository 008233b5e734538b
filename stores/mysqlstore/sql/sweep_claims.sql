-- Locks these records, unless another transaction has: as all operations do, in the order of the primary key.
SELECT k, first_fence, steps, ends_at + CASE WHEN state > 2 THEN GREATEST(keep_key, keep_audit) ELSE keep_key END, {{now}}
FROM {{claims}} FORCE INDEX (PRIMARY) WHERE (k, first_fence) IN ({{rows: (?, ?)}}) ORDER BY k FOR UPDATE SKIP LOCKED
