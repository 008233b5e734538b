-- Gives a record to an attempt: a take-over, a resumption, or the same owner again.
UPDATE retrysafe_records
SET state = 1, fence = ?2, attempt = ?3, ends_at = ?4, keep_replay = ?5, keep_key = ?6, keep_audit = ?7, owner = ?8
WHERE id = ?1
