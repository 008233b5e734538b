-- Returns the aggregates in which the most messages wait behind the first one that is not sent, and that message.
SELECT m.id, m.`key`, m.topic, m.aggregate, m.header, '', m.tries, c.now - m.saved_at,
	h.waiting - (m.state = 1), m.state, m.owner <> '', m.due_at - c.now, CAST(m.error AS BINARY)
FROM (SELECT {{clock}} AS now) AS c
STRAIGHT_JOIN (
	SELECT MIN(id) AS id, CAST(SUM(state = 1) AS SIGNED) AS waiting FROM {{messages}} FORCE INDEX ({{index order}})
	WHERE state IN (1, 3) AND aggregate > ''
	GROUP BY aggregate HAVING COUNT(*) > 1
	ORDER BY 2 DESC, 1 LIMIT ?1) AS h
STRAIGHT_JOIN {{messages}} AS m FORCE INDEX (PRIMARY) ON m.id = h.id
WHERE h.waiting > (m.state = 1)
ORDER BY 9 DESC, m.id
