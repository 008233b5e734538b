SELECT name, data FROM retrysafe_steps WHERE record = ?1 ORDER BY position
