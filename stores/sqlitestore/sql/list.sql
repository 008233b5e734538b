-- Up to ?1 records first claimed before ?2, the newest first: those in state ?3 (0: any), in the scope ?5 if ?4 is 1,
-- that may be read at ?6.
SELECT id, state, fence, attempt, ends_at, keep_replay, keep_key, keep_audit, steps, code, omitted, owner, fingerprint,
	NULL, NULL, scope, key
FROM retrysafe_records
WHERE id < ?2
	AND (?3 = 0 OR state = ?3)
	AND (?4 = 0 OR scope = coalesce(?5, x''))
	AND (archived = 0 AND ends_at + keep_key > ?6 OR state > 2 AND ends_at + keep_audit > ?6)
ORDER BY id DESC
LIMIT ?1
