-- Returns the first message that is not sent of up to a thousand aggregates, those after $2: two index lookups for each
-- aggregate, however many messages it has. Returns nothing if at most a thousand messages are due, because due.sql has
-- seen all of them.
WITH RECURSIVE walk (name, place) AS (
	SELECT (
		SELECT e.aggregate FROM {{messages}} AS e
		WHERE e.aggregate > $2 AND e.aggregate <> '' AND e.state <> 2
		ORDER BY e.aggregate LIMIT 1), 1
	WHERE 1000 < (
		SELECT count(*)
		FROM (SELECT 1 FROM {{messages}} WHERE state = 1 AND due_at <= (SELECT {{clock}}) LIMIT 1001) AS d)
	UNION ALL
	SELECT (
		SELECT e.aggregate FROM {{messages}} AS e
		WHERE e.aggregate > w.name AND e.aggregate <> '' AND e.state <> 2
		ORDER BY e.aggregate LIMIT 1), w.place + 1
	FROM walk AS w
	WHERE w.name IS NOT NULL AND w.place < 1000
)
SELECT w.name, coalesce((
	SELECT e.id FROM {{messages}} AS e
	WHERE e.aggregate >= w.name AND e.aggregate <> '' AND e.state <> 2 AND e.state IN (1, $1)
	ORDER BY e.aggregate, e.id LIMIT 1), 0)
FROM walk AS w
WHERE w.name IS NOT NULL
ORDER BY w.place
