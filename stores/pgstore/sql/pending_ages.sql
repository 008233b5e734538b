-- Ages of the pending records: those that 95 and 99 of 100 do not exceed, and the oldest. One time for all of them.
SELECT coalesce(a[1], 0), coalesce(a[2], 0), coalesce(a[3], 0)
FROM (
	SELECT percentile_disc(ARRAY[0.95, 0.99, 1]) WITHIN GROUP (ORDER BY t.now - c.claimed_at) AS a
	FROM (SELECT {{schema}}.clock()) t (now)
		CROSS JOIN (
			SELECT p.state, p.claimed_at, p.ends_at, p.keep_key
			FROM {{schema}}.tags g JOIN {{schema}}.claims p ON p.k = g.k AND p.first_fence = g.first_fence
			WHERE g.tag = '=unfinished' AND g.first_fence < (SELECT indexed_below FROM {{schema}}.progress)
			UNION ALL
			SELECT state, claimed_at, ends_at, keep_key FROM {{schema}}.claims
			WHERE first_fence >= (SELECT indexed_below FROM {{schema}}.progress)
		) c
	WHERE c.state = 1 AND c.ends_at + c.keep_key > t.now
) ages
