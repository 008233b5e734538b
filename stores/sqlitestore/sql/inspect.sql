-- The live record of a key, and the archived ones that may still be read, the newest first.
SELECT id, state, fence, attempt, ends_at, keep_replay, keep_key, keep_audit, steps, code, omitted, owner, fingerprint,
	tags, meta, body, scope, key
FROM retrysafe_records WHERE digest = ?1 AND archived = 0
UNION ALL
SELECT id, state, fence, attempt, ends_at, keep_replay, keep_key, keep_audit, steps, code, omitted, owner, fingerprint,
	tags, meta, body, scope, key
FROM retrysafe_records WHERE digest = ?1 AND archived = 1
ORDER BY id DESC
