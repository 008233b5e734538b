-- Extends the lease of the messages that no other relay has taken since.
UPDATE {{messages}}
SET due_at = {{clock}} + ?2
WHERE owner = ?1 AND id IN (SELECT value FROM json_each(?3))
