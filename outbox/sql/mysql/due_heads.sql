-- Returns the due messages among those with these IDs and those without an aggregate, without those that another relay
-- is taking. As due.sql, it locks only what it returns.
SELECT m.id, m.`key`, m.topic, m.aggregate, m.header, m.body, m.tries, {{clock}} - m.saved_at, m.owner <> '',
	{{clock}} - m.due_at
FROM (
	SELECT f.id
	FROM (
		(SELECT r.id FROM JSON_TABLE(?1, '$[*]' COLUMNS (id BIGINT PATH '$')) AS r LIMIT 1000)
		UNION ALL
		(SELECT id FROM {{messages}} FORCE INDEX ({{index due}})
		WHERE state = 1 AND ordered = 0 AND due_at <= {{clock}} AND (?3 = '' OR topic = ?3)
		ORDER BY due_at, id LIMIT 1000)) AS f
	LIMIT 2000) AS d
STRAIGHT_JOIN {{messages}} AS m FORCE INDEX (PRIMARY) ON m.id = d.id
WHERE m.state = 1 AND m.due_at <= {{clock}} AND (?3 = '' OR m.topic = ?3)
LIMIT ?2
FOR UPDATE SKIP LOCKED
