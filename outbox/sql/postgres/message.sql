SELECT id, key, topic, aggregate, header, body, tries, {{clock}} - saved_at, digest, state, owner <> '', due_at - {{clock}}, error
FROM {{messages}}
WHERE key = $1
