-- Returns up to $2 of the thousand messages that have been due for longest, without those that another relay is
-- taking, and of each aggregate only the first message that is not sent. ">=" in the subquery finds it, and leaves one
-- plan only, even to a planner without statistics about the table.
-- More rows are chosen than taken, however small the batch is, because other relays may have locked some of them.
-- They are joined by the primary key, because "state < 2" matches no other index.
SELECT m.id, m.key, m.topic, m.aggregate, m.header, m.body, m.tries, {{clock}} - m.saved_at, m.owner <> '',
	{{clock}} - m.due_at
FROM {{messages}} AS m
WHERE m.id = ANY (ARRAY(
		SELECT f.id
		FROM (
			SELECT id, aggregate FROM {{messages}}
			WHERE state = 1 AND due_at <= (SELECT {{clock}}) AND ($3::bytea = '' OR topic = $3)
			ORDER BY due_at, id LIMIT 1000) AS f
		WHERE f.aggregate = '' OR f.id = (
			SELECT e.id FROM {{messages}} AS e
			WHERE e.aggregate >= f.aggregate AND e.aggregate <> '' AND e.state <> 2 AND e.state IN (1, $1)
			ORDER BY e.aggregate, e.id LIMIT 1)
		LIMIT 3 * $2 + 100))
	AND m.state < 2 AND m.due_at <= (SELECT {{clock}})
ORDER BY m.due_at, m.id
LIMIT $2
FOR UPDATE OF m SKIP LOCKED
