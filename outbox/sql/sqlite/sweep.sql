DELETE FROM {{messages}}
WHERE id IN (
	SELECT id FROM {{messages}}
	WHERE state = 2 AND due_at <= (SELECT {{clock}}) - ?1
	ORDER BY due_at LIMIT ?2)
