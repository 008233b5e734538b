SELECT id, `key`, topic, aggregate, header, body, tries, {{clock}} - saved_at, digest, state, owner <> '', due_at - {{clock}},
	CAST(error AS BINARY)
FROM {{messages}}
WHERE `key` = ?1
