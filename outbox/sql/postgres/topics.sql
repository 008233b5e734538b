-- Pending messages and dead letters apart: each half reads an index of its state.
SELECT topic, count(*),
	sum(CASE WHEN due_at <= c.now THEN 1 ELSE 0 END), sum(CASE WHEN due_at > c.now AND owner <> '' THEN 1 ELSE 0 END),
	max(c.now - saved_at), max(tries), 0
FROM {{messages}} CROSS JOIN (SELECT {{clock}} AS now) AS c
WHERE state = 1
GROUP BY topic
UNION ALL
SELECT topic, 0, 0, 0, 0, 0, count(*)
FROM {{messages}}
WHERE state = 3
GROUP BY topic
