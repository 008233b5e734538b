DELETE FROM retrysafe_records WHERE id = ?1
