-- The record that takes part in claims, expired or not; with the answer if it may be replayed at the given instant.
SELECT id, state, fence, attempt, ends_at, keep_replay, keep_key, keep_audit, steps, code, omitted, owner, fingerprint,
	tags,
	CASE WHEN state > 2 AND ends_at + keep_replay > ? THEN meta END,
	CASE WHEN state > 2 AND ends_at + keep_replay > ? THEN body END
FROM retrysafe_records
WHERE digest = ? AND archived = 0
