DELETE m
FROM JSON_TABLE(CONVERT(CAST(?1 AS BINARY) USING utf8mb4),
	'$[*]' COLUMNS (name VARCHAR(255) CHARACTER SET utf8mb4 PATH '$')) AS r
STRAIGHT_JOIN {{messages}} AS m FORCE INDEX ({{index key}}) ON m.`key` = CAST(r.name AS BINARY)
WHERE m.state = 3
