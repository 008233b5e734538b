-- Returns the first pending message of up to a thousand aggregates, those after ?2; 0 in its place if a dead letter is
-- before it. The groups' names make the index give one entry per aggregate, however many messages it has. Returns
-- nothing if at most a thousand messages with an aggregate are due, because due.sql has seen all of them.
SELECT w.aggregate, IF((
	SELECT e.id FROM {{messages}} AS e FORCE INDEX ({{index order}})
	WHERE e.state = ?1 AND e.aggregate = w.aggregate ORDER BY e.id LIMIT 1) < w.id, 0, w.id)
FROM (
	SELECT 1 FROM {{messages}} FORCE INDEX ({{index due}})
	WHERE state = 1 AND ordered = 1 AND due_at <= {{clock}} LIMIT 1000, 1) AS g
STRAIGHT_JOIN (
	SELECT state, aggregate, MIN(id) AS id FROM {{messages}} FORCE INDEX ({{index order}})
	WHERE state = 1 AND aggregate > ?2 GROUP BY state, aggregate ORDER BY state, aggregate LIMIT 1000) AS w
WHERE w.aggregate <> ''
ORDER BY w.aggregate
