-- Adds a message whose key is free, and waits for the disk although the session would not (synchronous_commit = off).
INSERT INTO {{messages}} (key, topic, aggregate, header, body, digest, saved_by, saved_at, due_at, owner, tries, state, error)
VALUES ($1, $2, $3, $4, $5, $6, $7, {{clock}}, {{clock}} + $8::bigint, '', 0, 1, '')
ON CONFLICT (key) DO NOTHING
RETURNING CASE WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'on', true) END
