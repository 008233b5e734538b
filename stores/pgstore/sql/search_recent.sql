(SELECT *, first_fence AS place FROM {{schema}}.claims WHERE first_fence >= $8 ORDER BY first_fence DESC)
		UNION ALL (SELECT *, first_fence FROM {{schema}}.older WHERE first_fence >= $8 ORDER BY first_fence DESC)
