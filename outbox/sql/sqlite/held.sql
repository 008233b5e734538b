-- Returns the aggregates in which the most messages wait behind the first one that is not sent, and that message.
SELECT m.id, m.key, m.topic, m.aggregate, m.header, x'', m.tries, c.now - m.saved_at,
	h.waiting - (m.state = 1), m.state, m.owner <> x'', m.due_at - c.now, m.error
FROM (
	SELECT min(id) AS id, sum(state = 1) AS waiting FROM {{messages}}
	WHERE aggregate <> x'' AND state <> 2
	GROUP BY aggregate HAVING count(*) > 1
	ORDER BY 2 DESC, 1 LIMIT ?1) AS h
JOIN {{messages}} AS m ON m.id = h.id
CROSS JOIN (SELECT {{clock}} AS now) AS c
WHERE h.waiting > (m.state = 1)
ORDER BY 9 DESC, m.id
