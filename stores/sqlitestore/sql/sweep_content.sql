-- Drops between two ids what nobody may read any more. That the work has run, and how it ended, stays.
UPDATE retrysafe_records SET swept = 1, steps = 0, meta = NULL, body = NULL
WHERE id BETWEEN ? AND ? AND state > 2 AND swept = 0 AND ends_at + keep_audit <= ?
