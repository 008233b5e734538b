-- Takes keys that are free, abandoned, released or held by the caller itself. Keys in the order of k, each once. The
-- time is read before the row is locked: a lease that is extended while the statement waits is not taken for
-- abandoned.
INSERT INTO {{schema}}.claims AS c
	(k, owner, fence, first_fence, claimed_at, ends_at, keep_replay, keep_key, keep_audit, sweep_at,
	attempt, steps, code, state, omitted, waiters, take_over, fingerprint, scope, id, tags)
SELECT p.k, p.owner, t.now, t.now, t.now, t.now + p.lease, p.keep_replay, p.keep_key, p.keep_audit,
	(t.now + p.lease + p.keep_key) / 60000000, 1, 0, 0, 1, false, p.waiters, p.take_over, p.fingerprint, p.scope, p.id, nullif(p.tags, '')
FROM {{p: k uuid, owner uuid, lease bigint, keep_replay bigint, keep_key bigint, keep_audit bigint,
		waiters boolean, take_over boolean, fingerprint bytea, scope bytea, id bytea, tags bytea}}
	CROSS JOIN LATERAL (SELECT {{schema}}.clock() + 0 * p.lease) AS t (now)
ON CONFLICT (k) DO UPDATE SET
	owner = excluded.owner,
	fence = CASE WHEN c.state = 1 AND c.owner = excluded.owner AND c.ends_at + c.keep_key > excluded.claimed_at THEN c.fence
		ELSE greatest(c.fence + 1, excluded.fence) END,
	first_fence = CASE WHEN c.ends_at + c.keep_key > excluded.claimed_at THEN c.first_fence
		ELSE greatest(c.fence + 1, excluded.fence) END,
	claimed_at = CASE WHEN c.ends_at + c.keep_key > excluded.claimed_at THEN c.claimed_at ELSE excluded.claimed_at END,
	ends_at = {{schema}}.clock() + (excluded.ends_at - excluded.claimed_at),
	keep_replay = excluded.keep_replay, keep_key = excluded.keep_key, keep_audit = excluded.keep_audit,
	sweep_at = excluded.sweep_at,
	attempt = CASE WHEN c.ends_at + c.keep_key <= excluded.claimed_at THEN 1
		WHEN c.state = 1 AND c.owner = excluded.owner THEN c.attempt ELSE c.attempt + 1 END,
	steps = CASE WHEN c.ends_at + c.keep_key > excluded.claimed_at THEN c.steps ELSE 0 END,
	code = 0, state = 1, omitted = false,
	waiters = excluded.waiters OR c.waiters AND c.ends_at + c.keep_key > excluded.claimed_at,
	take_over = excluded.take_over, fingerprint = excluded.fingerprint, scope = excluded.scope, id = excluded.id,
	tags = CASE WHEN c.ends_at + c.keep_key > excluded.claimed_at THEN c.tags ELSE excluded.tags END
WHERE CASE WHEN c.ends_at + c.keep_key <= excluded.claimed_at
		-- Expired: free, once archive.sql has run if steps or an answer were left.
		THEN c.steps = 0 AND (c.state < 3 OR c.ends_at + c.keep_audit <= excluded.claimed_at)
	ELSE c.state = 1 AND c.owner = excluded.owner
		OR c.state = 1 AND c.ends_at <= excluded.claimed_at AND excluded.take_over AND c.fingerprint = excluded.fingerprint
		OR c.state = 2 AND c.fingerprint = excluded.fingerprint
	END
RETURNING k, fence, first_fence, claimed_at, ends_at, attempt, steps, {{schema}}.clock(), c.ctid, tags
