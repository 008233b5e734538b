INSERT INTO retrysafe_tags (tag, record) VALUES (?, ?)
