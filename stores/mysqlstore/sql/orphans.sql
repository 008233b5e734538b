-- Rows whose record is gone. It locks nothing.
SELECT DISTINCT t.k, t.first_fence FROM {{kept}} t FORCE INDEX (PRIMARY)
	LEFT JOIN {{claims}} c FORCE INDEX (PRIMARY) ON c.k = t.k AND c.first_fence = t.first_fence
	LEFT JOIN {{older}} o FORCE INDEX (PRIMARY) ON o.k = t.k AND o.first_fence = t.first_fence
WHERE {{where}} AND c.k IS NULL AND o.k IS NULL ORDER BY t.k, t.first_fence
