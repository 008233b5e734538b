-- What list.sql selects, of the blocks that have the scope ?5, or if ?4 is 0, one that begins with ?8.
SELECT id, state, fence, attempt, ends_at, keep_replay, keep_key, keep_audit, steps, code, omitted, owner, fingerprint,
	tags, NULL, NULL, r.scope, key
FROM retrysafe_blocks b CROSS JOIN retrysafe_records r
	ON id >= b.first AND id < min(?2, coalesce((SELECT min(n.first) FROM retrysafe_blocks n WHERE n.first > b.first), ?2))
WHERE b.first < ?2 AND +id >= ?7 AND (
		SELECT CASE WHEN ?4 THEN s.scope = coalesce(?5, x'') ELSE substr(s.scope, 1, length(?8)) = ?8 END
		FROM retrysafe_scopes s WHERE s.block = b.first AND s.scope >= CASE WHEN ?4 THEN coalesce(?5, x'') ELSE ?8 END
		ORDER BY s.scope LIMIT 1)
	AND (?3 = 0 OR state = ?3)
	AND (?4 = 0 OR r.scope = coalesce(?5, x''))
	AND (archived = 0 AND ends_at + keep_key > ?6 OR state > 2 AND ends_at + keep_audit > ?6)
	AND (?8 IS NULL OR substr(r.scope, 1, length(?8)) = ?8)
ORDER BY b.first DESC, id DESC
LIMIT ?1
