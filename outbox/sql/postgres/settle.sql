-- Leaves out messages that another relay has taken since. The IDs occur twice so that the rows are found by the primary
-- key, also in a table that was never analysed.
UPDATE {{messages}} AS m
SET state = r.state, due_at = {{clock}} + r.delay, tries = m.tries - r.untried, error = r.error,
	owner = convert_to(r.owner, 'UTF8')
FROM jsonb_to_recordset($1::text::jsonb)
	AS r (id bigint, state smallint, delay bigint, error text, untried integer, owner text)
WHERE m.id = r.id AND m.owner = $2
	AND m.id = ANY (ARRAY(SELECT (value ->> 'id')::bigint FROM jsonb_array_elements($1::text::jsonb)))
