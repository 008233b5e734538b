-- Deletes between two ids the steps of records that have none any more.
DELETE FROM retrysafe_steps
WHERE record BETWEEN ?1 AND ?2
	AND record NOT IN (SELECT id FROM retrysafe_records WHERE id BETWEEN ?1 AND ?2 AND steps > 0)
