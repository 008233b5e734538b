SELECT r.*, b.first_fence AS place FROM (
			SELECT b.first_fence,
				coalesce((SELECT min(n.first_fence) FROM {{schema}}.blocks n WHERE n.first_fence > b.first_fence), $8) AS below
			FROM {{schema}}.blocks b WHERE b.first_fence < $8 AND b.first_fence < $1 AND position($9 IN b.scopes) > 0
			ORDER BY b.first_fence DESC OFFSET 0
		) b CROSS JOIN LATERAL (
			SELECT * FROM {{schema}}.claims WHERE first_fence >= b.first_fence AND first_fence < b.below AND first_fence < $8
			UNION ALL SELECT * FROM {{schema}}.older WHERE first_fence >= b.first_fence AND first_fence < b.below AND first_fence < $8
		) r
