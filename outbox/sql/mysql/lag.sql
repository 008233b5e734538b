-- Returns for how long the message of a topic waits that has waited longest for its first try, among those that no earlier
-- message of their aggregate holds up. A try in which the receiver could not be reached leaves an error, and is none: then
-- the time counts from saving, and otherwise from when the message was due first.
SELECT COALESCE(MAX({{clock}} - IF(m.error = '', m.due_at, m.saved_at)), 0)
FROM {{messages}} AS m FORCE INDEX ({{index sender}})
WHERE m.state = 1 AND m.topic = ?1 AND m.tries = 0 AND (m.aggregate = '' OR (
	m.id = (
		SELECT e.id FROM {{messages}} AS e FORCE INDEX ({{index order}})
		WHERE e.state = 1 AND e.aggregate = m.aggregate ORDER BY e.id LIMIT 1)
	AND m.id <= COALESCE((
		SELECT e.id FROM {{messages}} AS e FORCE INDEX ({{index order}})
		WHERE e.state = 3 AND e.aggregate = m.aggregate ORDER BY e.id LIMIT 1), m.id)))
