SELECT id, key, topic, aggregate, header, ''::bytea, tries, {{clock}} - saved_at, digest, state, owner <> '', due_at - {{clock}}, error
FROM {{messages}}
WHERE state = $1::smallint AND ($2::bytea = '' OR topic = $2) AND id > $3
ORDER BY id
LIMIT $4
