-- Adds messages, a row of values for each, with 1 row affected for each whose key is free. A message whose key is taken counts
-- as 2 rows, because a number of the one that has it changes, also on a connection that counts the rows which were found.
-- That makes the COMMIT wait for the log: the server shows the rows of a transaction to others before they are on disk, and
-- what was only seen must not be acknowledged. INSERT ... SELECT would lock the counter of ids until the statement ends.
INSERT INTO {{messages}}
	(`key`, topic, aggregate, header, body, digest, saved_by, saved_at, due_at, owner, tries, state, ordered, clashes,
	error)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, {{clock}}, {{clock}} + ?8, '', 0, 1, ?3 <> '', 0, '')
ON DUPLICATE KEY UPDATE clashes = clashes + 1
