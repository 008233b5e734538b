SELECT r.*, g.first_fence AS place FROM {{schema}}.tags g CROSS JOIN LATERAL (
			SELECT * FROM {{schema}}.claims WHERE k = g.k AND first_fence = g.first_fence
			UNION ALL SELECT * FROM {{schema}}.older WHERE k = g.k AND first_fence = g.first_fence
		) r WHERE g.tag = $8 AND g.first_fence < $1 AND (octet_length($9::bytea) = 0 OR r.id = $9)
