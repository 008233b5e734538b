-- Makes the keys of expired records free: a record whose answer may still be read moves to older, others are deleted
-- with their steps. Keys in the order of k.
WITH t AS MATERIALIZED (SELECT {{schema}}.clock() AS now),
gone AS (
	DELETE FROM {{schema}}.claims c USING {{p: k uuid}}, t WHERE c.k = p.k AND c.ends_at + c.keep_key <= t.now RETURNING c.*
), steps AS (
	DELETE FROM {{schema}}.steps s USING gone g, t
	WHERE g.steps > 0 AND s.k = g.k AND s.first_fence = g.first_fence AND NOT (g.state > 2 AND g.ends_at + g.keep_audit > t.now)
)
INSERT INTO {{schema}}.older SELECT g.* FROM gone g, t WHERE g.state > 2 AND g.ends_at + g.keep_audit > t.now
