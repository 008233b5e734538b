SELECT COUNT(*),
	CAST(COALESCE(SUM(m.due_at <= c.now), 0) AS SIGNED),
	CAST(COALESCE(SUM(m.due_at > c.now AND m.owner <> ''), 0) AS SIGNED),
	COALESCE(MAX(c.now - m.saved_at), 0),
	COALESCE(MAX(m.tries), 0),
	(SELECT COUNT(*) FROM {{messages}} FORCE INDEX ({{index due}}) WHERE state = 3)
FROM {{messages}} AS m FORCE INDEX ({{index due}}) CROSS JOIN (SELECT {{clock}} AS now) AS c
WHERE m.state = 1
