-- $1 before, $2 state or 0, $3 scope or NULL, $4 limit.
SELECT c.k, c.owner, c.fence, c.first_fence, c.claimed_at, c.ends_at, c.keep_replay, c.keep_key, c.keep_audit, c.attempt, c.code,
	c.state, c.omitted, c.waiters, c.steps, c.fingerprint, NULL::bytea, NULL::bytea, NULL::bytea[], NULL::bytea[], t.now, c.scope, c.id
FROM (SELECT {{schema}}.clock()) t (now)
	CROSS JOIN LATERAL (
		SELECT * FROM {{schema}}.claims UNION ALL SELECT * FROM {{schema}}.older
	) c
WHERE c.first_fence < $1 AND ($2::smallint = 0 OR c.state = $2) AND ($3::bytea IS NULL OR c.scope = $3)
	AND CASE WHEN c.state > 2 THEN c.ends_at + greatest(c.keep_key, c.keep_audit) ELSE c.ends_at + c.keep_key END > t.now
ORDER BY c.first_fence DESC
FETCH FIRST $4 ROWS WITH TIES
