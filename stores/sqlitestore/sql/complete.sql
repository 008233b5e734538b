UPDATE retrysafe_records
SET state = ?, ends_at = ?, keep_replay = ?, keep_key = ?, keep_audit = ?, code = ?, omitted = ?, meta = ?, body = ?
WHERE id = ? AND digest = ? AND fence = ? AND owner = ? AND archived = 0 AND state = 1 AND ends_at + keep_key > ?
