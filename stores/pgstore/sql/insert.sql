-- Takes keys that have no record. Most claims need no more, and it costs the server half of what acquire.sql does.
-- Keys in the order of k, each once. It waits a second for a record that a transaction is changing, as one does that is
-- about to complete the key: lock_timeout holds from the first row on.
INSERT INTO {{schema}}.claims
	(k, owner, fence, first_fence, claimed_at, ends_at, keep_replay, keep_key, keep_audit, sweep_at,
	attempt, steps, code, state, omitted, waiters, take_over, fingerprint, scope, id, tags)
SELECT p.k, p.owner, t.now, t.now, t.now, t.now + p.lease, p.keep_replay, p.keep_key, p.keep_audit,
	(t.now + p.lease + p.keep_key) / 60000000, 1, 0, 0, 1, false, p.waiters, p.take_over, p.fingerprint, p.scope, p.id, nullif(p.tags, '')
FROM {{p: k uuid, owner uuid, lease bigint, keep_replay bigint, keep_key bigint, keep_audit bigint,
		waiters boolean, take_over boolean, fingerprint bytea, scope bytea, id bytea, tags bytea}}
	CROSS JOIN LATERAL (SELECT {{schema}}.clock() + 0 * p.lease) AS t (now)
WHERE (SELECT set_config('lock_timeout', '1000', true)) <> ''
ON CONFLICT DO NOTHING
RETURNING k, fence, first_fence, claimed_at, ends_at, attempt, steps, {{schema}}.clock(), ctid, tags
