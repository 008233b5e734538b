SELECT m.id, m.`key`, m.topic, m.aggregate, m.header, '', m.tries, {{clock}} - m.saved_at, m.digest, m.state, m.owner <> '',
	m.due_at - {{clock}}, CAST(m.error AS BINARY)
FROM JSON_TABLE(CONVERT(CAST(?1 AS BINARY) USING utf8mb4),
	'$[*]' COLUMNS (name VARCHAR(255) CHARACTER SET utf8mb4 PATH '$')) AS r
STRAIGHT_JOIN {{messages}} AS m FORCE INDEX ({{index key}}) ON m.`key` = CAST(r.name AS BINARY)
ORDER BY m.id
