SELECT c.k, c.owner, c.fence, c.first_fence, c.claimed_at, c.ends_at, c.keep_replay, c.keep_key, c.keep_audit,
	c.sweep_at, c.attempt, c.code, c.state, c.omitted, c.steps, c.fingerprint, {{own_tags}}, {{now}}, {{now}}, r.meta, r.body, c.scope, c.id
FROM (SELECT * FROM {{claims}} WHERE k IN ({{rows: ?}}) UNION ALL SELECT * FROM {{older}} WHERE k IN ({{rows: ?}})) c
	LEFT JOIN {{results}} r ON c.state > 2 AND r.ended_at = c.ends_at AND r.k = c.k AND c.ends_at + c.keep_audit > {{now}}
WHERE CASE WHEN c.state > 2 THEN c.ends_at + GREATEST(c.keep_key, c.keep_audit) ELSE c.ends_at + c.keep_key END > {{now}}
ORDER BY c.first_fence DESC
