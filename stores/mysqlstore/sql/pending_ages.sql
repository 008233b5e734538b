-- Ages of the pending records: those that 95 and 99 of 100 do not exceed, and the oldest.
SELECT COALESCE(MIN(CASE WHEN share >= 0.95 THEN age END), 0), COALESCE(MIN(CASE WHEN share >= 0.99 THEN age END), 0),
	COALESCE(MAX(age), 0)
FROM (
	SELECT {{now}} - claimed_at AS age, CUME_DIST() OVER (ORDER BY claimed_at DESC) AS share
	FROM {{claims}} WHERE state = 1 AND ends_at + keep_key > {{now}}
) ages
