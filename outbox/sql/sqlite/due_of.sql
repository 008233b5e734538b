-- As due.sql, of the sender ?4 alone, by the index of senders.
SELECT m.id, m.key, m.topic, m.aggregate, m.header, m.body, m.tries, {{clock}} - m.saved_at, m.owner <> x'',
	{{clock}} - m.due_at
FROM {{messages}} AS m
WHERE m.id IN (
		SELECT f.id
		FROM (
			SELECT id, aggregate FROM {{messages}}
			WHERE state = 1 AND topic = ?3 AND saved_by = ?4 AND saved_by <> x'' AND due_at <= (SELECT {{clock}})
			ORDER BY topic, saved_by, due_at, id LIMIT 1000) AS f
		WHERE f.aggregate = x'' OR f.id = (
			SELECT e.id FROM {{messages}} AS e
			WHERE e.aggregate >= f.aggregate AND e.aggregate <> x'' AND e.state <> 2 AND e.state IN (1, ?1)
			ORDER BY e.aggregate, e.id LIMIT 1)
		LIMIT ?2)
ORDER BY m.due_at, m.id
