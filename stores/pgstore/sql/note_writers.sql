-- Moves ready_below to the time at which transactions that wrote claims were last noted, if all of these have ended; then
-- notes those of now, which is $1. A claim locks its table before it reads the clock, so what it has written is of a
-- transaction that was noted, or was committed then, or has a later time. All that write rows have this lock, whatever
-- others they have; VACUUM, which may take hours, has not. A restart gives a prepared transaction another name. If the
-- clock was set back, the claims of the last ten minutes are looked at again.
WITH held AS MATERIALIZED (
	SELECT coalesce(array_agg(DISTINCT l.virtualtransaction), '{}') AS writers, coalesce(bool_or(l.pid IS NULL), false) AS prepared
	FROM pg_locks l
	WHERE l.locktype = 'relation' AND l.relation = '{{schema}}.claims'::regclass AND l.granted
		AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
		AND l.mode = 'RowExclusiveLock'
)
UPDATE {{schema}}.progress p SET
	ready_below = CASE WHEN p.noted_at > $1 THEN least(p.indexed_below, $1 - 600000000) ELSE p.noted_at END,
	indexed_below = CASE WHEN p.noted_at > $1 THEN least(p.indexed_below, $1 - 600000000) ELSE p.indexed_below END,
	scoped_below = CASE WHEN p.noted_at > $1 THEN least(p.scoped_below, $1 - 600000000) ELSE p.scoped_below END,
	noted_at = $1, writers = h.writers
FROM held h
WHERE p.noted_at > $1 OR NOT h.prepared AND NOT p.writers && h.writers
