-- What goes into a block: the next ?2 records from the id ?1 on.
SELECT id, scope, key FROM retrysafe_records WHERE id >= ?1 ORDER BY id LIMIT ?2
