-- Returns the due messages among those with these IDs and those without an aggregate, without those that another relay
-- is taking.
SELECT m.id, m.key, m.topic, m.aggregate, m.header, m.body, m.tries, {{clock}} - m.saved_at, m.owner <> '',
	{{clock}} - m.due_at
FROM {{messages}} AS m
WHERE m.id = ANY (ARRAY(
		SELECT value::bigint FROM jsonb_array_elements_text($1::text::jsonb)
		UNION ALL
		(SELECT id FROM {{messages}} WHERE state = 1 AND aggregate = '' AND ($3::bytea = '' OR topic = $3)
			ORDER BY due_at, id LIMIT 1000)))
	AND m.state < 2 AND m.due_at <= (SELECT {{clock}}) AND ($3::bytea = '' OR m.topic = $3)
ORDER BY m.due_at, m.id
LIMIT $2
FOR UPDATE OF m SKIP LOCKED
