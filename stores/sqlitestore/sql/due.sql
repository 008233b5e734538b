-- Of the next records between two ids: how many there are, the last one's id, of how many something is to be swept, and
-- when that will be the case of the next one. Ended records lose their content once Audit has passed, any record goes
-- once it neither takes part in claims nor may be read.
WITH
	now(at) AS (VALUES (?)),
	record AS (
		SELECT id,
			ends_at + CASE WHEN state > 2 AND swept = 0 THEN keep_audit ELSE keep_key END AS due,
			ends_at + CASE WHEN archived = 0 THEN keep_key ELSE 0 END AS rest
		FROM retrysafe_records
		WHERE id BETWEEN ? AND ?
		ORDER BY id
		LIMIT ?
	)
SELECT count(*), max(id), count(*) FILTER (WHERE due <= at),
	min(CASE WHEN due > at THEN due WHEN rest > at THEN rest END)
FROM record, now
