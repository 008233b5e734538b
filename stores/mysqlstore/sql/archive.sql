-- Keeps ended records whose key is about to be claimed again, because their answer may still be read.
INSERT INTO {{older}} (k, owner, fence, first_fence, claimed_at, ends_at, keep_replay, keep_key, keep_audit, sweep_at,
	attempt, steps, code, state, omitted, fingerprint, scope, id, tags, tags_of)
SELECT k, owner, fence, first_fence, claimed_at, ends_at, keep_replay, keep_key, keep_audit, sweep_at,
	attempt, steps, code, state, omitted, fingerprint, scope, id, tags, tags_of
FROM {{claims}} FORCE INDEX (PRIMARY) WHERE k IN ({{rows: ?}})
