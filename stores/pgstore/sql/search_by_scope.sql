SELECT r.*, b.block AS place FROM (
			SELECT b.first_fence AS block,
				coalesce((SELECT min(n.first_fence) FROM {{schema}}.blocks n WHERE n.first_fence > b.first_fence), $8) AS below
			FROM {{schema}}.blocks b WHERE b.first_fence < $8 AND b.first_fence < $1 AND (
				SELECT CASE WHEN $3::bytea IS NULL THEN substring(s.scope FROM 1 FOR octet_length($7::bytea)) = $7 ELSE s.scope = $3 END
				FROM {{schema}}.scopes s WHERE s.block = b.first_fence AND s.scope >= coalesce($3, $7) ORDER BY s.scope LIMIT 1)
			ORDER BY b.first_fence DESC OFFSET 0
		) b CROSS JOIN LATERAL (
			SELECT * FROM {{schema}}.claims WHERE first_fence >= b.block AND first_fence < b.below AND first_fence < $8
			UNION ALL SELECT * FROM {{schema}}.older WHERE first_fence >= b.block AND first_fence < b.below AND first_fence < $8
		) r
