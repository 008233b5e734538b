-- Claims a key that has no record. If one has come meanwhile, no row changes. Drivers may bind an empty blob as NULL.
INSERT INTO retrysafe_records (id, fence, ends_at, room, digest, keep_replay, keep_key, keep_audit, owner, fingerprint,
	scope, key, tags, archived, state, attempt, steps, swept, code, omitted)
VALUES (?, ?, ?, zeroblob(?), ?, ?, ?, ?, ?, coalesce(?, x''), coalesce(?, x''), ?, ?, 0, 1, 1, 0, 0, 0, 0)
ON CONFLICT (digest) WHERE archived = 0 DO NOTHING
