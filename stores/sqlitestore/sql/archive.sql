UPDATE retrysafe_records SET archived = 1 WHERE id = ?1
