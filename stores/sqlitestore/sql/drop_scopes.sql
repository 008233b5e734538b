-- Drops the scopes of the block ?1, which ends at ?2, that no record has any more.
DELETE FROM retrysafe_scopes
WHERE block = ?1 AND scope NOT IN (SELECT scope FROM retrysafe_records WHERE id >= ?1 AND id < ?2)
