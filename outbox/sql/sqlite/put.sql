-- Adds the messages of the list ?1 whose keys are free, in its order, and returns their keys. ?2 has their bodies, one after
-- the other. A part of no bytes would be NULL.
INSERT INTO {{messages}} (key, topic, aggregate, header, body, digest, saved_by, saved_at, due_at, owner, tries, state, error)
SELECT unhex(m.value ->> 'key'), unhex(m.value ->> 'topic'), unhex(m.value ->> 'aggregate'), unhex(m.value ->> 'header'),
	coalesce(substr(?2, m.value ->> 'at', m.value ->> 'size'), x''), unhex(m.value ->> 'digest'), unhex(m.value ->> 'sender'),
	{{clock}}, {{clock}} + (m.value ->> 'delay'), x'', 0, 1, ''
FROM json_each(?1) AS m
WHERE true
ON CONFLICT (key) DO NOTHING
RETURNING key, NULL
