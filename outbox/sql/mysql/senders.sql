-- Returns up to a hundred senders with pending messages of a topic, those after ?2, and whether one of their messages is
-- due. The groups' names make the index give one entry per sender, however many messages it has.
SELECT saved_by, MIN(due_at) <= {{clock}}
FROM {{messages}} FORCE INDEX ({{index sender}})
WHERE state = 1 AND topic = ?1 AND saved_by > ?2
GROUP BY state, topic, saved_by
ORDER BY state, topic, saved_by
LIMIT 100
