UPDATE {{messages}}
SET state = 1, due_at = {{clock}}, tries = 0, owner = '', error = ''
WHERE state = $2::smallint AND key = ANY (ARRAY(SELECT convert_to(value, 'UTF8') FROM jsonb_array_elements_text($1::text::jsonb)))
