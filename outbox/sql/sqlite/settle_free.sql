-- As settle.sql: SQLite locks the whole file, never one message.
UPDATE {{messages}} AS m
SET state = r.value ->> 'state', due_at = {{clock}} + (r.value ->> 'delay'),
	tries = tries - (r.value ->> 'untried'), error = r.value ->> 'error',
	owner = CAST(r.value ->> 'owner' AS BLOB)
FROM json_each(?1) AS r
WHERE m.id = r.value ->> 'id' AND m.owner = ?2
