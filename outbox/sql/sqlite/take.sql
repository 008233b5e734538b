UPDATE {{messages}}
SET owner = ?1, due_at = {{clock}} + ?2, tries = tries + 1
WHERE id IN (SELECT value FROM json_each(?3))
