-- Makes a key's record, if it has ended under the fence $2, one that was released: drops its answer, and its steps
-- except those whose names begin with $5, and adds a step. Searches by state find it from then on. Returns whether the
-- record is reopened by that step, now or before. The transaction holds the row.
WITH t AS MATERIALIZED (SELECT {{schema}}.clock() AS now),
live AS MATERIALIZED (
	SELECT c.first_fence, c.ends_at, c.state > 2 AND c.fence = $2 AS ended,
		EXISTS (SELECT FROM {{schema}}.steps s WHERE s.k = c.k AND s.first_fence = c.first_fence AND s.name = $3) AS saved
	FROM {{schema}}.claims c, t WHERE c.k = $1 AND c.ends_at + c.keep_key > t.now
), reopened AS (
	UPDATE {{schema}}.claims c SET state = 2, ends_at = t.now, code = 0, omitted = false, steps = c.steps + 1,
		sweep_at = (t.now + c.keep_key) / 60000000
	FROM live l, t WHERE c.k = $1 AND c.first_fence = l.first_fence AND l.ended AND NOT l.saved
	RETURNING c.first_fence, c.steps, l.ends_at, CASE WHEN c.waiters THEN pg_notify({{channel}}, c.k::text)::text END
), unfinished AS (
	INSERT INTO {{schema}}.tags (tag, first_fence, k) SELECT '=unfinished', first_fence, $1 FROM reopened ON CONFLICT DO NOTHING
), not_failed AS (
	DELETE FROM {{schema}}.tags t USING reopened o WHERE t.tag = '=failed' AND t.first_fence = o.first_fence AND t.k = $1
), answer AS (
	DELETE FROM {{schema}}.results r USING reopened o WHERE r.k = $1 AND r.ended_at = o.ends_at
), dropped AS (
	DELETE FROM {{schema}}.steps s USING reopened o
	WHERE s.k = $1 AND s.first_fence = o.first_fence AND substring(s.name FROM 1 FOR octet_length($5::bytea)) <> $5::bytea
), added AS (
	INSERT INTO {{schema}}.steps (k, first_fence, n, name, data) SELECT $1, first_fence, steps, $3, $4 FROM reopened
)
SELECT ended OR saved FROM live
