-- Makes an ended record one that was released, without its answer.
UPDATE retrysafe_records SET state = 2, ends_at = ?2, swept = 0, code = 0, omitted = 0, meta = NULL, body = NULL
WHERE id = ?1
