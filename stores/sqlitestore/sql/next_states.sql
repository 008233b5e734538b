-- How many of the next ?3 records there are to look at, below the id ?2, from what retrysafe_meta has as ?1, and the last
-- one's id.
SELECT count(*), max(id) FROM (
	SELECT id FROM retrysafe_records
	WHERE id >= (SELECT value FROM retrysafe_meta WHERE name = ?1)
		AND id < CASE ?1 WHEN 'again' THEN (SELECT value FROM retrysafe_meta WHERE name = 'indexed') ELSE ?2 END
	ORDER BY id LIMIT ?3
)
