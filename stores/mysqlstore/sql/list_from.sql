-- The first fence of the last record of a page.
SELECT c.first_fence FROM (SELECT * FROM {{claims}} UNION ALL SELECT * FROM {{older}}) c
WHERE {{where}}
	AND CASE WHEN c.state > 2 THEN c.ends_at + GREATEST(c.keep_key, c.keep_audit) ELSE c.ends_at + c.keep_key END > {{now}}
ORDER BY c.first_fence DESC LIMIT 1 OFFSET {{rows: ?}}
