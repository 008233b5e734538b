-- What list.sql selects, of the records in a state ?3 other than 3. Those below the id 'indexed' have a row in retrysafe_tags;
-- one that was unfinished may have failed since.
SELECT record AS id, state, fence, attempt, ends_at, keep_replay, keep_key, keep_audit, steps, code, omitted, owner, fingerprint,
	tags, NULL, NULL, scope, key
FROM retrysafe_tags CROSS JOIN retrysafe_records ON id = record
WHERE tag = CAST('=unfinished' AS BLOB) AND record < min(?2, (SELECT value FROM retrysafe_meta WHERE name = 'indexed')) AND record >= ?7
	AND (?3 < 3 OR NOT EXISTS (SELECT 1 FROM retrysafe_tags f WHERE f.tag = CAST('=failed' AS BLOB) AND f.record = id))
	AND state = ?3
	AND (?4 = 0 OR scope = coalesce(?5, x''))
	AND (archived = 0 AND ends_at + keep_key > ?6 OR state > 2 AND ends_at + keep_audit > ?6)
	AND (?8 IS NULL OR substr(scope, 1, length(?8)) = ?8)
UNION ALL
SELECT record AS id, state, fence, attempt, ends_at, keep_replay, keep_key, keep_audit, steps, code, omitted, owner, fingerprint,
	tags, NULL, NULL, scope, key
FROM retrysafe_tags CROSS JOIN retrysafe_records ON id = record
WHERE ?3 = 4 AND tag = CAST('=failed' AS BLOB) AND record < min(?2, (SELECT value FROM retrysafe_meta WHERE name = 'indexed')) AND record >= ?7
	AND state = ?3
	AND (?4 = 0 OR scope = coalesce(?5, x''))
	AND (archived = 0 AND ends_at + keep_key > ?6 OR state > 2 AND ends_at + keep_audit > ?6)
	AND (?8 IS NULL OR substr(scope, 1, length(?8)) = ?8)
UNION ALL
SELECT id, state, fence, attempt, ends_at, keep_replay, keep_key, keep_audit, steps, code, omitted, owner, fingerprint,
	tags, NULL, NULL, scope, key
FROM retrysafe_records
WHERE id < ?2 AND id >= max(?7, (SELECT value FROM retrysafe_meta WHERE name = 'indexed'))
	AND state = ?3
	AND (?4 = 0 OR scope = coalesce(?5, x''))
	AND (archived = 0 AND ends_at + keep_key > ?6 OR state > 2 AND ends_at + keep_audit > ?6)
	AND (?8 IS NULL OR substr(scope, 1, length(?8)) = ?8)
ORDER BY id DESC
LIMIT ?1
