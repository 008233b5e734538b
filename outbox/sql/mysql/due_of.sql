-- As due.sql, of the sender ?4 alone, by the index of senders.
SELECT m.id, m.`key`, m.topic, m.aggregate, m.header, m.body, m.tries, {{clock}} - m.saved_at, m.owner <> '',
	{{clock}} - m.due_at
FROM (
	SELECT f.id
	FROM (
		SELECT id, aggregate, due_at FROM {{messages}} FORCE INDEX ({{index sender}})
		WHERE state = 1 AND topic = ?3 AND saved_by = ?4 AND due_at <= {{clock}}
		ORDER BY due_at, id LIMIT 1000) AS f
	WHERE f.aggregate = '' OR (
		f.id = (
			SELECT e.id FROM {{messages}} AS e FORCE INDEX ({{index order}})
			WHERE e.state = 1 AND e.aggregate = f.aggregate ORDER BY e.id LIMIT 1)
		AND f.id <= COALESCE((
			SELECT e.id FROM {{messages}} AS e FORCE INDEX ({{index order}})
			WHERE e.state = ?1 AND e.aggregate = f.aggregate ORDER BY e.id LIMIT 1), f.id))
	ORDER BY f.due_at, f.id LIMIT 2000) AS d
STRAIGHT_JOIN {{messages}} AS m FORCE INDEX (PRIMARY) ON m.id = d.id
WHERE m.state = 1 AND m.due_at <= {{clock}}
LIMIT ?2
FOR UPDATE SKIP LOCKED
