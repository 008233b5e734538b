-- Drops a block without records, so that the one before it reaches as far as it did.
DELETE FROM retrysafe_blocks WHERE first = ?1 AND first > 0 AND NOT EXISTS (SELECT 1 FROM retrysafe_scopes WHERE block = ?1)
