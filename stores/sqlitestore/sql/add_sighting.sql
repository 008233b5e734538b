-- Adds to a record that people may read at ?8: the count, the earliest and the latest time, and the code of the latest.
INSERT INTO retrysafe_sightings (record, kind, count, first_at, last_at, code)
SELECT id, ?3, ?4, ?5, ?6, ?7 FROM retrysafe_records
WHERE id = ?1 AND digest = ?2
	AND (archived = 0 AND ends_at + keep_key > ?8 OR state > 2 AND ends_at + keep_audit > ?8)
ON CONFLICT (record, kind) DO UPDATE SET
	count = count + excluded.count,
	code = CASE WHEN excluded.last_at >= last_at THEN excluded.code ELSE code END,
	first_at = min(first_at, excluded.first_at),
	last_at = max(last_at, excluded.last_at)
