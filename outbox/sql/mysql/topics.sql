-- Pending messages and dead letters apart: each half reads an index of its state.
SELECT m.topic, COUNT(*), CAST(SUM(m.due_at <= c.now) AS SIGNED), CAST(SUM(m.due_at > c.now AND m.owner <> '') AS SIGNED),
	MAX(c.now - m.saved_at), MAX(m.tries), 0
FROM {{messages}} AS m FORCE INDEX ({{index due}}) CROSS JOIN (SELECT {{clock}} AS now) AS c
WHERE m.state = 1
GROUP BY m.topic
UNION ALL
SELECT topic, 0, 0, 0, 0, 0, COUNT(*)
FROM {{messages}} FORCE INDEX ({{index due}})
WHERE state = 3
GROUP BY topic
