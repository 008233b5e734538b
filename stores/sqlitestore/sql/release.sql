UPDATE retrysafe_records SET state = 2, ends_at = ?2 WHERE id = ?1
