SELECT id, `key`, topic, aggregate, header, body, tries, {{clock}} - saved_at, {{clock}} - due_at,
	CAST(error AS BINARY)
FROM {{messages}}
WHERE state = 3 AND `key` = ?1
