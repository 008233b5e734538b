-- Claims a key that has no record. If one has come meanwhile, no row changes. Drivers may bind an empty blob as NULL.
INSERT INTO retrysafe_records (id, archived, digest, state, fence, attempt, ends_at, keep_replay, keep_key, keep_audit,
	steps, swept, code, omitted, owner, fingerprint, scope, key)
VALUES (?, 0, ?, 1, ?, 1, ?, ?, ?, ?, 0, 0, 0, 0, ?, coalesce(?, x''), coalesce(?, x''), ?)
ON CONFLICT (digest) WHERE archived = 0 DO NOTHING
