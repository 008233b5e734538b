SELECT first_fence, fence, ends_at, state, steps FROM {{older}} FORCE INDEX (PRIMARY) WHERE k IN ({{rows: ?}})
	AND ends_at + GREATEST(keep_key, keep_audit) > {{now}} ORDER BY first_fence FOR UPDATE
