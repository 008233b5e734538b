-- Returns the aggregates in which the most messages wait behind the first one that is not sent, and that message.
-- Pending and dead messages are read one after the other, because without statistics about the table the planner would
-- read all of it for both.
SELECT m.id, m.key, m.topic, m.aggregate, m.header, ''::bytea, m.tries, c.now - m.saved_at,
	h.waiting - CASE m.state WHEN 1 THEN 1 ELSE 0 END, m.state, m.owner <> '', m.due_at - c.now, m.error
FROM (
	SELECT min(u.id) AS id, count(*) FILTER (WHERE u.state = 1) AS waiting
	FROM (
		SELECT id, aggregate, state FROM {{messages}} WHERE state = 1
		UNION ALL
		SELECT id, aggregate, state FROM {{messages}} WHERE state = 3) AS u
	WHERE u.aggregate <> ''
	GROUP BY u.aggregate HAVING count(*) > 1
	ORDER BY 2 DESC, 1 LIMIT $1) AS h
JOIN {{messages}} AS m ON m.id = h.id
CROSS JOIN (SELECT {{clock}} AS now) AS c
WHERE h.waiting > CASE m.state WHEN 1 THEN 1 ELSE 0 END
ORDER BY 9 DESC, m.id
