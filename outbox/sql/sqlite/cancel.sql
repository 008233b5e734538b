UPDATE {{messages}}
SET state = 2, due_at = {{clock}}, owner = x'', error = ?2
WHERE (state = 3 OR state = 1 AND (owner = x'' OR due_at <= {{clock}}))
	AND key IN (SELECT CAST(value AS BLOB) FROM json_each(?1))
