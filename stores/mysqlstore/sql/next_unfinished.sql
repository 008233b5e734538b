-- The next records that were unfinished, and the state in which they are. It locks nothing.
SELECT t.k, t.first_fence, c.state, o.state FROM (
	SELECT k, first_fence FROM {{tags}} FORCE INDEX (tag) WHERE tag = '=unfinished' AND first_fence > {{after}}
	ORDER BY first_fence LIMIT {{rows: ?}}
) t
	LEFT JOIN {{claims}} c FORCE INDEX (PRIMARY) ON c.k = t.k AND c.first_fence = t.first_fence
	LEFT JOIN {{older}} o FORCE INDEX (PRIMARY) ON o.k = t.k AND o.first_fence = t.first_fence
ORDER BY t.first_fence
