-- Drops bodies and steps that may not be read any more, of records between two ids. That the work has run, and how it
-- ended, stays.
UPDATE retrysafe_records SET swept = 1, steps = 0, meta = NULL, body = NULL
WHERE id BETWEEN ? AND ? AND state > 2 AND swept = 0 AND ends_at + keep_audit <= ?
