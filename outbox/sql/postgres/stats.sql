SELECT count(*),
	coalesce(sum(CASE WHEN due_at <= c.now THEN 1 ELSE 0 END), 0),
	coalesce(sum(CASE WHEN due_at > c.now AND owner <> '' THEN 1 ELSE 0 END), 0),
	coalesce(max(c.now - saved_at), 0),
	coalesce(max(tries), 0),
	(SELECT count(*) FROM {{messages}} WHERE state = 3)
FROM {{messages}} CROSS JOIN (SELECT {{clock}} AS now) AS c
WHERE state = 1
