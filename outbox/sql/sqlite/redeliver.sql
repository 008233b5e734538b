UPDATE {{messages}}
SET state = 1, due_at = {{clock}}, tries = 0, owner = x'', error = ''
WHERE state = ?2 AND key IN (SELECT CAST(value AS BLOB) FROM json_each(?1))
