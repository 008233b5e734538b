-- Adds the messages of the list ?1 whose keys are free, in its order, with 1 row affected for each. ?2 has their bodies, one
-- after the other. A message whose key is taken counts as 2 rows, because a number of the one that has it changes, also on a
-- connection that counts the rows which were found. That makes the COMMIT wait for the log: this server shows the rows of a
-- transaction to others before they are on disk, and what was only seen must not be acknowledged.
INSERT INTO {{messages}}
	(`key`, topic, aggregate, header, body, digest, saved_by, saved_at, due_at, owner, tries, state, ordered, clashes,
	error)
SELECT UNHEX(m.name), UNHEX(m.topic), UNHEX(m.aggregate), UNHEX(m.header), SUBSTRING(CAST(?2 AS BINARY), m.at, m.size),
	UNHEX(m.digest), UNHEX(m.sender), {{clock}}, {{clock}} + m.delay, '', 0, 1, m.aggregate <> '', 0, ''
FROM JSON_TABLE(?1, '$[*]' COLUMNS (
	name VARCHAR(510) PATH '$.key', topic VARCHAR(510) PATH '$.topic', aggregate VARCHAR(510) PATH '$.aggregate',
	header LONGTEXT PATH '$.header', at INT PATH '$.at', size INT PATH '$.size', digest VARCHAR(64) PATH '$.digest',
	sender VARCHAR(64) PATH '$.sender', delay BIGINT PATH '$.delay')) AS m
ON DUPLICATE KEY UPDATE clashes = clashes + 1
