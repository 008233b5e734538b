-- Leaves out messages that another relay has taken since. The JSON is UTF-8, whatever the connection's character set.
UPDATE JSON_TABLE(CONVERT(CAST(?1 AS BINARY) USING utf8mb4), '$[*]' COLUMNS (
		id BIGINT PATH '$.id', state INT PATH '$.state', delay BIGINT PATH '$.delay',
		error TEXT CHARACTER SET utf8mb4 PATH '$.error', untried INT PATH '$.untried',
		owner TEXT CHARACTER SET utf8mb4 PATH '$.owner')) AS r
STRAIGHT_JOIN {{messages}} AS m FORCE INDEX (PRIMARY) ON m.id = r.id
SET m.state = r.state, m.due_at = {{clock}} + r.delay, m.tries = m.tries - r.untried, m.error = r.error,
	m.owner = r.owner
WHERE m.owner = ?2
