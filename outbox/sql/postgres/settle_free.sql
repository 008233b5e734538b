-- As settle.sql, but only for the messages that no transaction has locked.
UPDATE {{messages}} AS m
SET state = r.state, due_at = {{clock}} + r.delay, tries = m.tries - r.untried, error = r.error,
	owner = convert_to(r.owner, 'UTF8')
FROM jsonb_to_recordset($1::text::jsonb)
	AS r (id bigint, state smallint, delay bigint, error text, untried integer, owner text)
WHERE m.id = r.id AND m.owner = $2
	AND m.id = ANY (ARRAY(
		SELECT id FROM {{messages}}
		WHERE id = ANY (ARRAY(SELECT (value ->> 'id')::bigint FROM jsonb_array_elements($1::text::jsonb)))
		FOR UPDATE SKIP LOCKED))
