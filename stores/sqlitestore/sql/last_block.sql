-- The last block, how many records were put into it, and the lowest id that is in no block yet.
SELECT first, records, (SELECT value FROM retrysafe_meta WHERE name = 'blocks') FROM retrysafe_blocks ORDER BY first DESC LIMIT 1
