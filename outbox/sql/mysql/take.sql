UPDATE JSON_TABLE(?3, '$[*]' COLUMNS (id BIGINT PATH '$')) AS r
STRAIGHT_JOIN {{messages}} AS m FORCE INDEX (PRIMARY) ON m.id = r.id
SET m.owner = ?1, m.due_at = {{clock}} + ?2, m.tries = m.tries + 1
