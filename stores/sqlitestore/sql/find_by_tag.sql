-- What list.sql selects, of the records with the tag ?9; of those the ones with the key ?10, unless it is NULL.
SELECT id, state, fence, attempt, ends_at, keep_replay, keep_key, keep_audit, steps, code, omitted, owner, fingerprint,
	tags, NULL, NULL, scope, key
FROM retrysafe_tags CROSS JOIN retrysafe_records ON id = record
WHERE tag = ?9 AND record < ?2 AND record >= ?7 AND (?10 IS NULL OR key = ?10)
	AND (?3 = 0 OR state = ?3)
	AND (?4 = 0 OR scope = coalesce(?5, x''))
	AND (archived = 0 AND ends_at + keep_key > ?6 OR state > 2 AND ends_at + keep_audit > ?6)
	AND (?8 IS NULL OR substr(scope, 1, length(?8)) = ?8)
ORDER BY record DESC
LIMIT ?1
