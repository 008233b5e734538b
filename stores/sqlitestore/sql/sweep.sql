-- Deletes between two ids what neither takes part in claims nor may be read.
DELETE FROM retrysafe_records
WHERE id BETWEEN ? AND ?
	AND NOT (archived = 0 AND ends_at + keep_key > ? OR state > 2 AND ends_at + keep_audit > ?)
