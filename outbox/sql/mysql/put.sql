-- Adds a message whose key is free, with 1 row affected. If the key is taken, 2 rows count as affected, because a number
-- changes: also on a connection that counts the rows which were found.
INSERT INTO {{messages}}
	(`key`, topic, aggregate, header, body, digest, saved_by, saved_at, due_at, owner, tries, state, ordered, clashes,
	error)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, {{clock}}, {{clock}} + ?8, '', 0, 1, ?3 <> '', 0, '')
ON DUPLICATE KEY UPDATE clashes = clashes + 1
