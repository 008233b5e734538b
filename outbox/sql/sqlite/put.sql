-- Adds a message whose key is free.
INSERT INTO {{messages}} (key, topic, aggregate, header, body, digest, saved_by, saved_at, due_at, owner, tries, state, error)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, {{clock}}, {{clock}} + ?8, x'', 0, 1, '')
ON CONFLICT (key) DO NOTHING
