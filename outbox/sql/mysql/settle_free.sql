-- As settle.sql, but only for the messages that no transaction has locked.
UPDATE (
	SELECT f.id, r.state, r.delay, r.error, r.untried, r.owner
	FROM JSON_TABLE(CONVERT(CAST(?1 AS BINARY) USING utf8mb4), '$[*]' COLUMNS (
			id BIGINT PATH '$.id', state INT PATH '$.state', delay BIGINT PATH '$.delay',
			error TEXT CHARACTER SET utf8mb4 PATH '$.error', untried INT PATH '$.untried',
			owner TEXT CHARACTER SET utf8mb4 PATH '$.owner')) AS r
	STRAIGHT_JOIN {{messages}} AS f FORCE INDEX (PRIMARY) ON f.id = r.id
	WHERE f.owner = ?2
	LIMIT 1000000
	FOR UPDATE SKIP LOCKED) AS r
STRAIGHT_JOIN {{messages}} AS m FORCE INDEX (PRIMARY) ON m.id = r.id
SET m.state = r.state, m.due_at = {{clock}} + r.delay, m.tries = m.tries - r.untried, m.error = r.error,
	m.owner = r.owner
WHERE m.owner = ?2
