-- What list.sql selects, of the records with the key ?9, whose hash is ?10. A hash may be found where no such key is.
-- The plus keeps SQLite from making an index of its own for this query, of all records.
SELECT id, state, fence, attempt, ends_at, keep_replay, keep_key, keep_audit, steps, code, omitted, owner, fingerprint,
	tags, NULL, NULL, scope, key
FROM retrysafe_hashes CROSS JOIN retrysafe_records ON id BETWEEN first AND last
WHERE first < ?2 AND first >= coalesce((SELECT max(first) FROM retrysafe_hashes WHERE first <= ?7), 0) AND instr(hashes, ?10) > 0 AND +key = ?9 AND id < ?2 AND id >= ?7
	AND (?3 = 0 OR state = ?3)
	AND (?4 = 0 OR scope = coalesce(?5, x''))
	AND (archived = 0 AND ends_at + keep_key > ?6 OR state > 2 AND ends_at + keep_audit > ?6)
	AND (?8 IS NULL OR substr(scope, 1, length(?8)) = ?8)
ORDER BY first DESC, id DESC
LIMIT ?1
