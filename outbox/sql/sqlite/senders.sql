-- Returns up to a hundred senders with pending messages of a topic, those after ?2, and whether one of their messages is
-- due: two index lookups for each sender, however many messages it has.
WITH RECURSIVE walk (name, place) AS (
	SELECT (
		SELECT e.saved_by FROM {{messages}} AS e
		WHERE e.state = 1 AND e.topic = ?1 AND e.saved_by > ?2 AND e.saved_by <> x''
		ORDER BY e.topic, e.saved_by LIMIT 1), 1
	UNION ALL
	SELECT (
		SELECT e.saved_by FROM {{messages}} AS e
		WHERE e.state = 1 AND e.topic = ?1 AND e.saved_by > w.name AND e.saved_by <> x''
		ORDER BY e.topic, e.saved_by LIMIT 1), w.place + 1
	FROM walk AS w
	WHERE w.name IS NOT NULL AND w.place < 100
)
SELECT w.name, coalesce((
	SELECT e.due_at <= (SELECT {{clock}}) FROM {{messages}} AS e
	WHERE e.state = 1 AND e.topic = ?1 AND e.saved_by = w.name AND e.saved_by <> x''
	ORDER BY e.topic, e.saved_by, e.due_at LIMIT 1), false)
FROM walk AS w
WHERE w.name IS NOT NULL
ORDER BY w.place
