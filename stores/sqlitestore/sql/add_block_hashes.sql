INSERT INTO retrysafe_block_hashes (bits, block, hashes) VALUES (?1, ?2, ?3)
ON CONFLICT DO UPDATE SET hashes = CAST(hashes || excluded.hashes AS BLOB)
