SELECT id, key, topic, aggregate, header, ''::bytea, tries, {{clock}} - saved_at, digest, state, owner <> '', due_at - {{clock}}, error
FROM {{messages}}
WHERE key = ANY (ARRAY(SELECT convert_to(value, 'UTF8') FROM jsonb_array_elements_text($1::text::jsonb)))
ORDER BY id
