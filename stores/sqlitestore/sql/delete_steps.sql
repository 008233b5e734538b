DELETE FROM retrysafe_steps WHERE record = ?1
