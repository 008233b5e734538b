UPDATE {{messages}}
SET state = 2, due_at = {{clock}}, owner = '', error = $2
WHERE (state = 3 OR state = 1 AND (owner = '' OR due_at <= {{clock}}))
	AND key = ANY (ARRAY(SELECT convert_to(value, 'UTF8') FROM jsonb_array_elements_text($1::text::jsonb)))
