-- Returns the next sender after ?2 with pending messages of a topic, and whether one of its messages is due: one lookup,
-- whatever statistics the server has. With several senders in one statement, which needs groups or a recursion, it reads
-- all messages of each.
SELECT saved_by, due_at <= {{clock}}
FROM {{messages}} FORCE INDEX ({{index sender}})
WHERE state = 1 AND topic = ?1 AND saved_by > ?2
ORDER BY saved_by, due_at
LIMIT 1
