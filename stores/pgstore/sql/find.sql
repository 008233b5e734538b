-- The records of keys, with their answers and steps. One time, the statement's, decides for all columns, so that an
-- answer that may be read at that time was read. The last column is when the transaction began: if a lease ended
-- between the two times, the row may have been extended without being seen, and has to be read again.
SELECT c.k, c.owner, c.fence, c.first_fence, c.claimed_at, c.ends_at, c.keep_replay, c.keep_key, c.keep_audit, c.attempt, c.code,
	c.state, c.omitted, c.waiters, c.steps, c.fingerprint, r.meta, r.body,
	CASE WHEN c.steps > 0 AND c.state < 3 THEN (SELECT array_agg(s.name ORDER BY s.n) FROM {{schema}}.steps s
		WHERE s.k = c.k AND s.first_fence = c.first_fence) END,
	CASE WHEN c.steps > 0 AND c.state < 3 THEN (SELECT array_agg(s.data ORDER BY s.n) FROM {{schema}}.steps s
		WHERE s.k = c.k AND s.first_fence = c.first_fence) END,
	(date_part('epoch', statement_timestamp()) * 1e6)::bigint, c.tags, (date_part('epoch', now()) * 1e6)::bigint
FROM {{p: k uuid}}
	JOIN {{schema}}.claims c ON c.k = p.k
	LEFT JOIN {{schema}}.results r ON c.state > 2 AND r.ended_at = c.ends_at AND r.k = c.k
		AND c.ends_at + c.keep_replay > (date_part('epoch', statement_timestamp()) * 1e6)::bigint
