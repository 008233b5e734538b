-- Deletes up to $1 of the records whose minute has come, not before minute $2, if they have expired; the others
-- get the minute in which they do. The time is materialized, so that the index is not read beyond it.
WITH m AS MATERIALIZED (SELECT t.now, (t.now / 60000000)::integer AS minute FROM (SELECT {{schema}}.clock()) t (now)),
due AS (
	SELECT c.k, c.first_fence, c.steps,
		c.ends_at + CASE WHEN c.state > 2 THEN greatest(c.keep_key, c.keep_audit) ELSE c.keep_key END <= (SELECT now FROM m) AS expired,
		(c.ends_at + CASE WHEN c.state > 2 THEN greatest(c.keep_key, c.keep_audit) ELSE c.keep_key END) / 60000000 AS next
	FROM {{schema}}.claims c
	WHERE c.sweep_at >= $2 AND c.sweep_at <= (SELECT minute FROM m) AND (c.sweep_at < (SELECT minute FROM m)
		OR c.ends_at + CASE WHEN c.state > 2 THEN greatest(c.keep_key, c.keep_audit) ELSE c.keep_key END <= (SELECT now FROM m))
	ORDER BY c.sweep_at LIMIT $1 FOR UPDATE OF c SKIP LOCKED
), gone AS (
	DELETE FROM {{schema}}.claims c USING due d WHERE d.expired AND c.k = d.k
	RETURNING c.k, c.first_fence, c.steps
), steps AS (
	DELETE FROM {{schema}}.steps s USING gone g WHERE g.steps > 0 AND s.k = g.k AND s.first_fence = g.first_fence
), later AS (
	UPDATE {{schema}}.claims c SET sweep_at = d.next FROM due d
	WHERE NOT d.expired AND c.k = d.k
)
SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM due), (SELECT minute FROM m)
