UPDATE JSON_TABLE(CONVERT(CAST(?1 AS BINARY) USING utf8mb4),
	'$[*]' COLUMNS (name VARCHAR(255) CHARACTER SET utf8mb4 PATH '$')) AS r
STRAIGHT_JOIN {{messages}} AS m FORCE INDEX ({{index key}}) ON m.`key` = CAST(r.name AS BINARY)
SET m.state = 2, m.due_at = {{clock}}, m.owner = '', m.error = ?2
WHERE m.state = 3 OR m.state = 1 AND (m.owner = '' OR m.due_at <= {{clock}})
