UPDATE retrysafe_records SET meta = NULL, body = NULL, keep_replay = 0 WHERE id = ?
