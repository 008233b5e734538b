-- Ages of the pending records: those that 95 and 99 of 100 do not exceed, and the oldest. One time for all of them.
SELECT coalesce(a[1], 0), coalesce(a[2], 0), coalesce(a[3], 0)
FROM (
	SELECT percentile_disc(ARRAY[0.95, 0.99, 1]) WITHIN GROUP (ORDER BY t.now - c.claimed_at) AS a
	FROM (SELECT {{schema}}.clock()) t (now)
		CROSS JOIN {{schema}}.claims c
	WHERE c.state = 1 AND c.ends_at + c.keep_key > t.now
) ages
