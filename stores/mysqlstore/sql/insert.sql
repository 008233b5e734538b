-- Takes keys that have no record. The time is the same for all rows, and is the insert ID that the client is told.
-- Columns take their values from those before them.
INSERT IGNORE INTO {{claims}} (k, owner, keep_replay, keep_key, keep_audit, fingerprint, scope, id, attempt, state,
	fence, first_fence, claimed_at, ends_at, sweep_at{{tag_columns}})
VALUES {{rows: (?, ?, ?, ?, ?, ?, ?, ?, 1, 1, LAST_INSERT_ID({{now}}), fence, fence, fence + ?, (ends_at + keep_key) DIV 60000000{{tag_values}})}}
