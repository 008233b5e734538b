-- Notes the records up to the id ?2 that have not succeeded, from what retrysafe_meta has as ?1.
INSERT INTO retrysafe_tags (tag, record)
SELECT CASE state WHEN 4 THEN CAST('=failed' AS BLOB) ELSE CAST('=unfinished' AS BLOB) END, id
FROM retrysafe_records WHERE id BETWEEN (SELECT value FROM retrysafe_meta WHERE name = ?1) AND ?2 AND state <> 3
ON CONFLICT DO NOTHING
