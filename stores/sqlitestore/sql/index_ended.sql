-- Forgets which of the records between two ids were unfinished, and have ended.
DELETE FROM retrysafe_tags
WHERE tag = CAST('=unfinished' AS BLOB) AND record BETWEEN ?1 AND ?2
	AND (SELECT state FROM retrysafe_records WHERE id = record) > 2
