-- Returns the keys of a list that put.sql has added in this transaction: it has counted a clash for each of the others.
SELECT m.`key`, NULL
FROM JSON_TABLE(CONVERT(CAST(?1 AS BINARY) USING utf8mb4),
	'$[*]' COLUMNS (name VARCHAR(255) CHARACTER SET utf8mb4 PATH '$')) AS r
STRAIGHT_JOIN {{messages}} AS m FORCE INDEX ({{index key}}) ON m.`key` = CAST(r.name AS BINARY)
WHERE m.clashes = 0
