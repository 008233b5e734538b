SELECT count(*) FILTER (WHERE c.state = 1),
	count(*) FILTER (WHERE c.state = 1 AND c.ends_at <= {{schema}}.clock()),
	count(*) FILTER (WHERE c.state = 2 AND c.steps > 0),
	count(*) FILTER (WHERE c.state = 3),
	count(*) FILTER (WHERE c.state = 4)
FROM (SELECT state, ends_at, steps FROM {{schema}}.claims UNION ALL SELECT state, ends_at, steps FROM {{schema}}.older) c
