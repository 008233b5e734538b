-- The records of a page.
(SELECT c.k, c.owner, c.fence, c.first_fence, c.claimed_at, c.ends_at, c.keep_replay, c.keep_key, c.keep_audit,
	c.sweep_at, c.attempt, c.code, c.state, c.omitted, c.steps, c.fingerprint, {{own_tags}}, {{now}}, {{now}},
	NULL, NULL, c.scope, c.id
FROM {{from_claims}} WHERE {{where}}
	AND CASE WHEN c.state > 2 THEN c.ends_at + GREATEST(c.keep_key, c.keep_audit) ELSE c.ends_at + c.keep_key END > {{now}})
UNION ALL
(SELECT c.k, c.owner, c.fence, c.first_fence, c.claimed_at, c.ends_at, c.keep_replay, c.keep_key, c.keep_audit,
	c.sweep_at, c.attempt, c.code, c.state, c.omitted, c.steps, c.fingerprint, {{own_tags}}, {{now}}, {{now}},
	NULL, NULL, c.scope, c.id
FROM {{from_older}} WHERE {{where}}
	AND CASE WHEN c.state > 2 THEN c.ends_at + GREATEST(c.keep_key, c.keep_audit) ELSE c.ends_at + c.keep_key END > {{now}})
ORDER BY first_fence DESC
