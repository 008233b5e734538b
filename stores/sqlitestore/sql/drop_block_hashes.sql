-- Drops what is known of the keys of a block without records.
DELETE FROM retrysafe_block_hashes
WHERE bits IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) AND block = ?1
	AND NOT EXISTS (SELECT 1 FROM retrysafe_scopes WHERE block = ?1)
