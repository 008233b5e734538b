-- Drops the answers of a key's records that may be read, and their steps except those whose names begin with $5, and
-- adds a step to the newest, if that one has ended under the fence $2. Returns whether the newest is purged by that
-- step, now or before.
WITH t AS MATERIALIZED (SELECT {{schema}}.clock() AS now),
live AS MATERIALIZED (
	SELECT c.first_fence, c.fence, c.ends_at, c.state FROM {{schema}}.claims c, t
	WHERE c.k = $1 AND c.ends_at + CASE WHEN c.state > 2 THEN greatest(c.keep_key, c.keep_audit) ELSE c.keep_key END > t.now
	FOR UPDATE OF c
), kept AS MATERIALIZED (
	SELECT o.first_fence, o.fence, o.ends_at, o.state FROM {{schema}}.older o, t
	WHERE o.k = $1 AND o.ends_at + greatest(o.keep_key, o.keep_audit) > t.now
	FOR UPDATE OF o
), shown AS (
	SELECT * FROM live UNION ALL SELECT * FROM kept
), newest AS (
	SELECT n.first_fence, n.state > 2 AND n.fence = $2 AS meant,
		EXISTS (SELECT FROM {{schema}}.steps s WHERE s.k = $1 AND s.first_fence = n.first_fence AND s.name = $3) AS saved
	FROM shown n ORDER BY n.first_fence DESC LIMIT 1
), purged AS MATERIALIZED (
	SELECT first_fence, ends_at FROM shown WHERE (SELECT meant FROM newest)
), of_claims AS (
	UPDATE {{schema}}.claims c SET keep_replay = 0, steps = c.steps + 1 FROM purged p
	WHERE c.k = $1 AND c.first_fence = p.first_fence
	RETURNING c.first_fence, c.steps
), of_older AS (
	UPDATE {{schema}}.older o SET steps = o.steps + 1 FROM purged p
	WHERE o.k = $1 AND o.first_fence = p.first_fence
	RETURNING o.first_fence, o.steps
), answers AS (
	DELETE FROM {{schema}}.results r USING purged p WHERE r.k = $1 AND r.ended_at = p.ends_at
), dropped AS (
	DELETE FROM {{schema}}.steps s USING purged p
	WHERE s.k = $1 AND s.first_fence = p.first_fence AND substring(s.name FROM 1 FOR octet_length($5::bytea)) <> $5::bytea
), added AS (
	INSERT INTO {{schema}}.steps (k, first_fence, n, name, data)
	SELECT $1, n.first_fence, u.steps, $3, $4
	FROM newest n JOIN (SELECT * FROM of_claims UNION ALL SELECT * FROM of_older) u ON u.first_fence = n.first_fence
	ON CONFLICT (k, first_fence, name) DO NOTHING
)
SELECT meant OR saved FROM newest
