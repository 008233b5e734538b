-- The inner SELECT reads an index of the dead letters alone.
SELECT m.id, m.`key`, m.topic, m.aggregate, m.header, IF(?3, m.body, ''), m.tries, {{clock}} - m.saved_at,
	{{clock}} - m.due_at, CAST(m.error AS BINARY)
FROM (
	SELECT id FROM {{messages}} FORCE INDEX ({{index due}})
	WHERE state = 3 AND id > ?1 ORDER BY id LIMIT ?2) AS d
STRAIGHT_JOIN {{messages}} AS m FORCE INDEX (PRIMARY) ON m.id = d.id
ORDER BY m.id
