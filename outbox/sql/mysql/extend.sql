-- Extends the lease of the messages that no other relay has taken since.
UPDATE JSON_TABLE(?3, '$[*]' COLUMNS (id BIGINT PATH '$')) AS r
STRAIGHT_JOIN {{messages}} AS m FORCE INDEX (PRIMARY) ON m.id = r.id
SET m.due_at = {{clock}} + ?2
WHERE m.owner = ?1
