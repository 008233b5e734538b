-- The next ?2 blocks from ?1 on, where each ends, and how many of its scopes no record has any more.
SELECT first, below, (
	SELECT count(*) FROM retrysafe_scopes
	WHERE block = first AND scope NOT IN (SELECT scope FROM retrysafe_records WHERE id >= first AND id < below)
)
FROM (
	SELECT first, coalesce((SELECT min(n.first) FROM retrysafe_blocks n WHERE n.first > b.first),
		(SELECT value FROM retrysafe_meta WHERE name = 'blocks')) AS below
	FROM retrysafe_blocks b WHERE first >= ?1 ORDER BY first LIMIT ?2
)
