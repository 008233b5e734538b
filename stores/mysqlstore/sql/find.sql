-- The records of keys, with their answers and steps: a row for each step. What is read is newer than the time, which is
-- when the statement began: a lease that had ended by then and is not seen extended was abandoned.
SELECT c.k, c.owner, c.fence, c.first_fence, c.claimed_at, c.ends_at, c.keep_replay, c.keep_key, c.keep_audit,
	c.sweep_at, c.attempt, c.code, c.state, c.omitted, c.steps, c.fingerprint, {{own_tags}}, {{now}}, {{now}},
	r.meta, r.body, s.n, s.name, s.data
FROM {{claims}} c FORCE INDEX (PRIMARY)
	LEFT JOIN {{results}} r FORCE INDEX (PRIMARY) ON c.state > 2 AND r.ended_at = c.ends_at AND r.k = c.k
		AND c.ends_at + c.keep_replay > {{now}}
	LEFT JOIN {{steps}} s FORCE INDEX (PRIMARY) ON c.state < 3 AND c.steps > 0 AND s.k = c.k AND s.first_fence = c.first_fence
WHERE c.k IN ({{rows: ?}})
