-- Notes which of the records that were unfinished, between two ids, have failed.
INSERT INTO retrysafe_tags (tag, record)
SELECT CAST('=failed' AS BLOB), id FROM retrysafe_tags CROSS JOIN retrysafe_records ON id = record
WHERE tag = CAST('=unfinished' AS BLOB) AND record BETWEEN ?1 AND ?2 AND state = 4
ON CONFLICT DO NOTHING
