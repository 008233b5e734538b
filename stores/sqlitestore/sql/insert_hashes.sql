INSERT INTO retrysafe_hashes (first, last, hashes) VALUES (?, ?, ?)
