SELECT min(id) FROM retrysafe_records WHERE id > ?
