-- Forgets that a record has failed.
DELETE FROM retrysafe_tags WHERE tag = CAST('=failed' AS BLOB) AND record = ?
