DELETE FROM {{messages}}
WHERE id = ANY (ARRAY(
	SELECT id FROM {{messages}}
	WHERE state = 2 AND due_at <= (SELECT {{clock}}) - $1::bigint
	ORDER BY due_at LIMIT $2
	FOR UPDATE SKIP LOCKED))
