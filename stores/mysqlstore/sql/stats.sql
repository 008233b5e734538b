SELECT COALESCE(SUM(c.state = 1), 0), COALESCE(SUM(c.state = 1 AND c.ends_at <= {{now}}), 0),
	COALESCE(SUM(c.state = 2), 0), COALESCE(SUM(c.state = 3), 0), COALESCE(SUM(c.state = 4), 0)
FROM (SELECT state, ends_at FROM {{claims}} UNION ALL SELECT state, ends_at FROM {{older}}) c
