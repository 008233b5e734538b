SELECT id, key, topic, aggregate, header, x'', tries, {{clock}} - saved_at, digest, state, owner <> x'', due_at - {{clock}}, error
FROM {{messages}}
WHERE state = ?1 AND (?2 = x'' OR topic = ?2) AND id > ?3
ORDER BY id
LIMIT ?4
