-- Ages of the pending records: those that 95 and 99 of 100 do not exceed, and the oldest.
SELECT COALESCE(MIN(CASE WHEN share >= 0.95 THEN age END), 0), COALESCE(MIN(CASE WHEN share >= 0.99 THEN age END), 0),
	COALESCE(MAX(age), 0)
FROM (
	SELECT {{now}} - claimed_at AS age, CUME_DIST() OVER (ORDER BY claimed_at DESC) AS share
	FROM (
		SELECT c.claimed_at, c.state, c.ends_at, c.keep_key
		FROM {{tags}} t FORCE INDEX (tag) STRAIGHT_JOIN {{claims}} c FORCE INDEX (PRIMARY) ON c.k = t.k AND c.first_fence = t.first_fence
		WHERE t.tag = '=unfinished' AND t.first_fence < (SELECT value FROM {{progress}} WHERE name = 'indexed')
		UNION ALL
		SELECT claimed_at, state, ends_at, keep_key FROM {{claims}} FORCE INDEX (first)
		WHERE first_fence >= (SELECT value FROM {{progress}} WHERE name = 'indexed')
	) unfinished
	WHERE state = 1 AND ends_at + keep_key > {{now}}
) ages
