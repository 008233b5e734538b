-- What is known of keys. There is one time for all of it, that of the look, so that an answer which may still be read is there. What is
-- seen is a little older, but not as old as the transaction, whose begin comes last: between the two a lease may have ended, or not.
SELECT c.k, c.owner, c.fence, c.first_fence, c.claimed_at, c.ends_at, c.keep_replay, c.keep_key, c.keep_audit, c.attempt, c.code,
	c.state, c.omitted, c.waiters, c.steps, c.fingerprint, r.meta, r.body,
	CASE WHEN c.steps > 0 AND c.state < 3 THEN (SELECT array_agg(s.name ORDER BY s.n) FROM {{schema}}.steps s
		WHERE s.k = c.k AND s.first_fence = c.first_fence) END,
	CASE WHEN c.steps > 0 AND c.state < 3 THEN (SELECT array_agg(s.data ORDER BY s.n) FROM {{schema}}.steps s
		WHERE s.k = c.k AND s.first_fence = c.first_fence) END,
	(date_part('epoch', statement_timestamp()) * 1e6)::bigint, (date_part('epoch', now()) * 1e6)::bigint
FROM {{p: k uuid}}
	JOIN {{schema}}.claims c ON c.k = p.k
	LEFT JOIN {{schema}}.results r ON c.state > 2 AND r.ended_at = c.ends_at AND r.k = c.k
		AND c.ends_at + c.keep_replay > (date_part('epoch', statement_timestamp()) * 1e6)::bigint
