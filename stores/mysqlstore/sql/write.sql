-- Writes rows that this transaction has locked. Indexes of columns that do not change are not touched.
INSERT INTO {{claims}} (k, owner, fence, first_fence, claimed_at, ends_at, keep_replay, keep_key, keep_audit,
	sweep_at, attempt, code, state, omitted, steps, fingerprint)
VALUES {{rows: (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)}}
ON DUPLICATE KEY UPDATE owner = VALUES(owner), fence = VALUES(fence), first_fence = VALUES(first_fence),
	claimed_at = VALUES(claimed_at), ends_at = VALUES(ends_at), keep_replay = VALUES(keep_replay),
	keep_key = VALUES(keep_key), keep_audit = VALUES(keep_audit), sweep_at = VALUES(sweep_at), attempt = VALUES(attempt),
	code = VALUES(code), state = VALUES(state), omitted = VALUES(omitted), steps = VALUES(steps),
	fingerprint = VALUES(fingerprint)
