-- What find_by_id.sql selects, of the blocks in which a record may have the key: ?11 is the last four bits of its hash.
SELECT id, state, fence, attempt, ends_at, keep_replay, keep_key, keep_audit, steps, code, omitted, owner, fingerprint,
	tags, NULL, NULL, scope, key
FROM retrysafe_block_hashes h CROSS JOIN retrysafe_records
	ON id >= block AND id < min(?2, coalesce((SELECT min(n.first) FROM retrysafe_blocks n WHERE n.first > block), ?2))
WHERE bits = ?11 AND block < ?2 AND instr(hashes, ?10) > 0 AND +key = ?9 AND +id >= ?7
	AND (?3 = 0 OR state = ?3)
	AND (?4 = 0 OR scope = coalesce(?5, x''))
	AND (archived = 0 AND ends_at + keep_key > ?6 OR state > 2 AND ends_at + keep_audit > ?6)
	AND (?8 IS NULL OR substr(scope, 1, length(?8)) = ?8)
ORDER BY block DESC, id DESC
LIMIT ?1
