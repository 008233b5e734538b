-- Inserts (1 row affected), keeps the message that has the key (0, or 1 if the connection counts found rows), or counts
-- a clash, because a different message has the key (2). So the number tells on every connection. Of an attempt's
-- message, the version that the first attempt saved stays.
INSERT INTO {{messages}}
	(`key`, topic, aggregate, header, body, digest, saved_by, saved_at, due_at, owner, tries, state, ordered, clashes,
	error)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, {{clock}}, {{clock}}, '', 0, 1, ?3 <> '', 0, '')
ON DUPLICATE KEY UPDATE
	clashes = clashes + (digest <> VALUES(digest) AND saved_by = VALUES(saved_by))
