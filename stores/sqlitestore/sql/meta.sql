SELECT value FROM retrysafe_meta WHERE name = ?
