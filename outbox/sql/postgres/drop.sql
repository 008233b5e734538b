DELETE FROM {{messages}}
WHERE state = 3 AND key = ANY (ARRAY(SELECT convert_to(value, 'UTF8') FROM jsonb_array_elements_text($1::text::jsonb)))
