SELECT c.k, c.owner, c.fence, c.first_fence, c.claimed_at, c.ends_at, c.keep_replay, c.keep_key, c.keep_audit, c.attempt, c.code,
	c.state, c.omitted, c.waiters, c.steps, c.fingerprint, r.meta, r.body,
	CASE WHEN c.state < 3 OR c.ends_at + c.keep_audit > t.now THEN (SELECT array_agg(s.name ORDER BY s.n) FROM {{schema}}.steps s
		WHERE s.k = c.k AND s.first_fence = c.first_fence) END,
	CASE WHEN c.state < 3 OR c.ends_at + c.keep_audit > t.now THEN (SELECT array_agg(s.data ORDER BY s.n) FROM {{schema}}.steps s
		WHERE s.k = c.k AND s.first_fence = c.first_fence) END,
	t.now, c.tags, c.scope, c.id
FROM (SELECT * FROM {{schema}}.claims WHERE k = $1 UNION ALL SELECT * FROM {{schema}}.older WHERE k = $1) c
	CROSS JOIN (SELECT {{schema}}.clock()) t (now)
	LEFT JOIN {{schema}}.results r ON c.state > 2 AND r.ended_at = c.ends_at AND r.k = c.k AND c.ends_at + c.keep_audit > t.now
WHERE CASE WHEN c.state > 2 THEN c.ends_at + greatest(c.keep_key, c.keep_audit) ELSE c.ends_at + c.keep_key END > t.now
ORDER BY c.first_fence DESC
