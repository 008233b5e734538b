UPDATE retrysafe_records SET steps = steps + 1 WHERE id = ?1
