-- Locks the rows of keys and reads them. The first time is when the statement began: a lease that is extended while it
-- waits for a row is not taken for abandoned. The second is when the row was locked.
SELECT c.k, c.owner, c.fence, c.first_fence, c.claimed_at, c.ends_at, c.keep_replay, c.keep_key, c.keep_audit,
	c.sweep_at, c.attempt, c.code, c.state, c.omitted, c.steps, c.fingerprint, {{own_tags}}, {{now}}, {{late}}
FROM {{claims}} c FORCE INDEX (PRIMARY) WHERE c.k IN ({{rows: ?}}) ORDER BY c.k FOR UPDATE
