-- How many of the next records there are, as many as a page at most, and the first fence of the last one.
SELECT COUNT(*), COALESCE(MAX(first_fence), 0) FROM (
	(SELECT first_fence FROM {{claims}} FORCE INDEX (first) WHERE {{where}} ORDER BY first_fence LIMIT {{rows: ?}})
	UNION ALL
	(SELECT first_fence FROM {{older}} FORCE INDEX (first) WHERE {{where}} ORDER BY first_fence LIMIT {{rows: ?}})
	ORDER BY first_fence LIMIT {{rows: ?}}
) found
