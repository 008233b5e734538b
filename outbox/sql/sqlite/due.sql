-- Returns up to ?2 of the thousand messages that have been due for longest, without those that another relay is
-- taking, and of each aggregate only the first message that is not sent. ">=" in the subquery finds it, and leaves one
-- plan only, even to a planner without statistics about the table.
SELECT m.id, m.key, m.topic, m.aggregate, m.header, m.body, m.tries, {{clock}} - m.saved_at, m.owner <> x'',
	{{clock}} - m.due_at
FROM {{messages}} AS m
WHERE m.id IN (
		SELECT f.id
		FROM (
			SELECT id, aggregate FROM {{messages}}
			WHERE state = 1 AND due_at <= (SELECT {{clock}}) AND (?3 = x'' OR topic = ?3)
			ORDER BY due_at, id LIMIT 1000) AS f
		WHERE f.aggregate = x'' OR f.id = (
			SELECT e.id FROM {{messages}} AS e
			WHERE e.aggregate >= f.aggregate AND e.aggregate <> x'' AND e.state <> 2 AND e.state IN (1, ?1)
			ORDER BY e.aggregate, e.id LIMIT 1)
		LIMIT ?2)
ORDER BY m.due_at, m.id
