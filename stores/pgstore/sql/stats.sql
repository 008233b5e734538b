SELECT count(*) FILTER (WHERE c.state = 1),
	count(*) FILTER (WHERE c.state = 1 AND c.ends_at <= {{schema}}.clock()),
	count(*) FILTER (WHERE c.state = 2),
	count(*) FILTER (WHERE c.state = 3),
	count(*) FILTER (WHERE c.state = 4)
FROM (SELECT state, ends_at FROM {{schema}}.claims UNION ALL SELECT state, ends_at FROM {{schema}}.older) c
