-- How many of the next ?2 records there are that were unfinished, after the id ?1, the last one's id, and how many of them
-- have ended.
SELECT count(*), max(record), count(*) FILTER (WHERE (SELECT state FROM retrysafe_records WHERE id = record) > 2)
FROM (
	SELECT record FROM retrysafe_tags WHERE tag = CAST('=unfinished' AS BLOB) AND record > ?1 ORDER BY record LIMIT ?2
)
