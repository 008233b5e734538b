-- Up to ?1 records first claimed before ?2 and not before ?7, the newest first: those in state ?3 (0: any), in the scope
-- ?5 if ?4 is 1, in scopes that begin with ?8 (NULL: any), that may be read at ?6.
SELECT id, state, fence, attempt, ends_at, keep_replay, keep_key, keep_audit, steps, code, omitted, owner, fingerprint,
	tags, NULL, NULL, scope, key
FROM retrysafe_records
WHERE id < ?2 AND id >= ?7
	AND (?3 = 0 OR state = ?3)
	AND (?4 = 0 OR scope = coalesce(?5, x''))
	AND (archived = 0 AND ends_at + keep_key > ?6 OR state > 2 AND ends_at + keep_audit > ?6)
	AND (?8 IS NULL OR substr(scope, 1, length(?8)) = ?8)
ORDER BY id DESC
LIMIT ?1
