INSERT INTO retrysafe_blocks (first, records) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET records = records + excluded.records
