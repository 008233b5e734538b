-- Adds a message whose key is free (1 row affected); otherwise 0, or 2 as save.sql counts. Changing a number to another
-- one says so on each connection, also on one that counts found rows.
INSERT INTO {{messages}}
	(`key`, topic, aggregate, header, body, digest, saved_by, saved_at, due_at, owner, tries, state, ordered, clashes,
	error)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, {{clock}}, {{clock}} + ?8, '', 0, 1, ?3 <> '', 0, '')
ON DUPLICATE KEY UPDATE clashes = clashes + 1
