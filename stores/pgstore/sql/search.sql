-- The newest records that fit: $1 before, $2 state or 0, $3 scope or NULL, $4 limit, $5 and $6 the least and the greatest
-- age, $7 how the scope begins. What the records are found by follows: a tag and the ID or nothing, or an ID, or up to
-- where records are in blocks.
--
-- A first fence is no less than the time of the first claim, so that the greatest age ends the search. It is greater only
-- if the clock was set back and the key had a record before; if by no more than an hour, the least age begins the search.
SELECT c.k, c.owner, c.fence, c.first_fence, c.claimed_at, c.ends_at, c.keep_replay, c.keep_key, c.keep_audit, c.attempt, c.code,
	c.state, c.omitted, c.waiters, c.steps, c.fingerprint, NULL::bytea, NULL::bytea, NULL::bytea[], NULL::bytea[], t.now, c.tags, c.scope, c.id
FROM (SELECT {{schema}}.clock()) t (now)
	CROSS JOIN LATERAL (
		{{records}}
	) c
WHERE c.first_fence < $1 AND ($2::smallint = 0 OR c.state = $2) AND ($3::bytea IS NULL OR c.scope = $3)
	AND c.first_fence >= (SELECT {{schema}}.clock()) - $6::bigint
	AND c.first_fence <= (SELECT CASE WHEN $5::bigint = 0 THEN 9223372036854775807 ELSE {{schema}}.clock() - $5 + 3600000000 END)
	AND c.claimed_at <= t.now - $5::bigint AND c.claimed_at >= t.now - $6::bigint
	AND substring(c.scope FROM 1 FOR octet_length($7::bytea)) = $7
	AND CASE WHEN c.state > 2 THEN c.ends_at + greatest(c.keep_key, c.keep_audit) ELSE c.ends_at + c.keep_key END > t.now
ORDER BY {{order}}
FETCH FIRST $4 ROWS WITH TIES
