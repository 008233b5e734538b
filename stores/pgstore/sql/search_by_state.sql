(SELECT r.*, g.first_fence AS place FROM {{schema}}.tags g CROSS JOIN LATERAL (
			SELECT * FROM {{schema}}.claims WHERE k = g.k AND first_fence = g.first_fence
			UNION ALL SELECT * FROM {{schema}}.older WHERE k = g.k AND first_fence = g.first_fence
		) r WHERE g.tag = '=unfinished' AND g.first_fence < $1 AND g.first_fence < (SELECT indexed_below FROM {{schema}}.progress)
			AND ($2::smallint < 3 OR NOT EXISTS (
				SELECT FROM {{schema}}.tags f WHERE f.tag = '=failed' AND f.first_fence = g.first_fence AND f.k = g.k OFFSET 0))
		ORDER BY g.first_fence DESC)
		UNION ALL
		(SELECT r.*, g.first_fence FROM {{schema}}.tags g CROSS JOIN LATERAL (
			SELECT * FROM {{schema}}.claims WHERE k = g.k AND first_fence = g.first_fence
			UNION ALL SELECT * FROM {{schema}}.older WHERE k = g.k AND first_fence = g.first_fence
		) r WHERE $2::smallint = 4 AND g.tag = '=failed' AND g.first_fence < $1
			AND g.first_fence < (SELECT indexed_below FROM {{schema}}.progress)
		ORDER BY g.first_fence DESC)
		UNION ALL
		(SELECT *, first_fence FROM {{schema}}.claims WHERE first_fence >= (SELECT indexed_below FROM {{schema}}.progress)
		ORDER BY first_fence DESC)
		UNION ALL
		(SELECT *, first_fence FROM {{schema}}.older WHERE first_fence >= (SELECT indexed_below FROM {{schema}}.progress)
		ORDER BY first_fence DESC)
