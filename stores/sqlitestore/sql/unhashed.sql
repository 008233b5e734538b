-- The next records that no row of retrysafe_hashes is about, up to ?1 of them.
SELECT id, key FROM retrysafe_records
WHERE id > coalesce((SELECT last FROM retrysafe_hashes ORDER BY first DESC LIMIT 1), 0)
ORDER BY id
LIMIT ?1
