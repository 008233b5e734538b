-- Changes one row; changes none if another message has the key. Saving the same message again adds nothing. Of an
-- attempt's message, the version that the first attempt saved stays.
INSERT INTO {{messages}} AS m
	(key, topic, aggregate, header, body, digest, saved_by, saved_at, due_at, owner, tries, state, error)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, {{clock}}, {{clock}}, x'', 0, 1, '')
ON CONFLICT (key) DO UPDATE SET key = m.key
WHERE m.digest = excluded.digest OR m.saved_by <> excluded.saved_by
