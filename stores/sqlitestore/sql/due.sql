-- Of the records between two ids, in their order: when something is to be swept of them, and when the rest is. Ended
-- records lose their content once Audit has passed, any record goes once it neither takes part in claims nor may be read.
SELECT id,
	ends_at + CASE WHEN state > 2 AND swept = 0 THEN keep_audit ELSE keep_key END,
	ends_at + CASE WHEN archived = 0 THEN keep_key ELSE 0 END
FROM retrysafe_records
WHERE id BETWEEN ? AND ?
ORDER BY id
LIMIT ?
