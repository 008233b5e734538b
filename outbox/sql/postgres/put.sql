-- Adds the messages of the list $1 whose keys are free, in its order, and returns their keys. $2 has their bodies, one after
-- the other. It waits for the disk although the session would not (synchronous_commit = off).
INSERT INTO {{messages}} (key, topic, aggregate, header, body, digest, saved_by, saved_at, due_at, owner, tries, state, error)
SELECT decode(m.key, 'hex'), decode(m.topic, 'hex'), decode(m.aggregate, 'hex'), decode(m.header, 'hex'),
	substr($2::bytea, m.at, m.size), decode(m.digest, 'hex'), decode(m.sender, 'hex'), {{clock}}, {{clock}} + m.delay, '', 0, 1, ''
FROM json_to_recordset($1::text::json) AS m
	(key text, topic text, aggregate text, header text, at integer, size integer, digest text, sender text, delay bigint)
ON CONFLICT (key) DO NOTHING
RETURNING key, CASE WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'on', true) END
