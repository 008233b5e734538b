SELECT k, first_fence, steps, ends_at + keep_audit, {{now}}
FROM {{older}} FORCE INDEX (PRIMARY) WHERE k IN ({{firsts}}) AND (k, first_fence) IN ({{rows: (?, ?)}}) ORDER BY k FOR UPDATE SKIP LOCKED
