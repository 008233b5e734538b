UPDATE JSON_TABLE(CONVERT(CAST(?1 AS BINARY) USING utf8mb4),
	'$[*]' COLUMNS (name VARCHAR(255) CHARACTER SET utf8mb4 PATH '$')) AS r
STRAIGHT_JOIN {{messages}} AS m FORCE INDEX ({{index key}}) ON m.`key` = CAST(r.name AS BINARY)
SET m.state = 1, m.due_at = {{clock}}, m.tries = 0, m.owner = '', m.error = ''
WHERE m.state = ?2
