-- Returns up to ?2 of the messages that have been due for longest, a thousand with and a thousand without an aggregate,
-- leaving out those that another relay is taking, and of each aggregate all but the first message that is not sent.
-- The inner SELECTs lock nothing. The outer one locks only what it returns: it walks through the list in its order, by
-- the primary key, and stops at the limit; ORDER BY would make it lock the whole list.
SELECT m.id, m.`key`, m.topic, m.aggregate, m.header, m.body, m.tries, {{clock}} - m.saved_at, m.owner <> '',
	{{clock}} - m.due_at
FROM (
	SELECT f.id
	FROM (
		(SELECT id, aggregate, due_at FROM {{messages}} FORCE INDEX ({{index due}})
		WHERE state = 1 AND ordered = 0 AND due_at <= {{clock}} AND (?3 = '' OR topic = ?3)
		ORDER BY due_at, id LIMIT 1000)
		UNION ALL
		(SELECT id, aggregate, due_at FROM {{messages}} FORCE INDEX ({{index due}})
		WHERE state = 1 AND ordered = 1 AND due_at <= {{clock}} AND (?3 = '' OR topic = ?3)
		ORDER BY due_at, id LIMIT 1000)) AS f
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
