SELECT id, `key`, topic, aggregate, header, '', tries, {{clock}} - saved_at, digest, state, owner <> '',
	due_at - {{clock}}, CAST(error AS BINARY)
FROM {{messages}} FORCE INDEX ({{index order}})
WHERE state = ?1 AND (?2 = '' OR topic = ?2) AND id > ?3
ORDER BY id
LIMIT ?4
