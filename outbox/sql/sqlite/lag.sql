-- Returns for how long the message of a topic waits that has waited longest for its first try, among those that no earlier
-- message of their aggregate holds up. A try in which the receiver could not be reached leaves an error, and is none: then
-- the time counts from saving, and otherwise from when the message was due first.
SELECT coalesce(max({{clock}} - CASE WHEN m.error = '' THEN m.due_at ELSE m.saved_at END), 0)
FROM {{messages}} AS m
WHERE m.state = 1 AND m.topic = ?1 AND m.tries = 0 AND (m.aggregate = x'' OR m.id = (
	SELECT e.id FROM {{messages}} AS e
	WHERE e.aggregate >= m.aggregate AND e.aggregate <> x'' AND e.state <> 2
	ORDER BY e.aggregate, e.id LIMIT 1))
