-- Changes a row only if the lease holds; so does complete.sql.
UPDATE retrysafe_records SET ends_at = ?
WHERE digest = ? AND fence = ? AND owner = ? AND archived = 0 AND state = 1 AND id = ? AND ends_at + keep_key > ?
