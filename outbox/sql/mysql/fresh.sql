-- Returns the keys that put.sql has added in this transaction: it has counted a clash for each of the others.
SELECT m.`key`, NULL
FROM JSON_TABLE(?1, '$[*]' COLUMNS (name VARCHAR(510) PATH '$.key')) AS r
STRAIGHT_JOIN {{messages}} AS m FORCE INDEX ({{index key}}) ON m.`key` = UNHEX(r.name)
WHERE m.clashes = 0
