UPDATE retrysafe_meta SET value = ?1 WHERE name = 'fence'
