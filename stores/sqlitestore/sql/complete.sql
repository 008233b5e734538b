UPDATE retrysafe_records
SET ends_at = ?, state = ?, keep_replay = ?, keep_key = ?, keep_audit = ?, code = ?, omitted = ?, meta = ?, body = ?,
	room = NULL
WHERE digest = ? AND fence = ? AND owner = ? AND archived = 0 AND state = 1 AND id = ? AND ends_at + keep_key > ?
