-- The first fence of the last record of a page. Each half reads an index from its newest entry on.
SELECT first_fence FROM (
	(SELECT c.first_fence FROM {{from_claims}} WHERE {{where}}
		AND CASE WHEN c.state > 2 THEN c.ends_at + GREATEST(c.keep_key, c.keep_audit) ELSE c.ends_at + c.keep_key END > {{now}}
		ORDER BY {{index}}.first_fence DESC LIMIT {{rows: ?}})
	UNION ALL
	(SELECT c.first_fence FROM {{from_older}} WHERE {{where}}
		AND CASE WHEN c.state > 2 THEN c.ends_at + GREATEST(c.keep_key, c.keep_audit) ELSE c.ends_at + c.keep_key END > {{now}}
		ORDER BY {{index}}.first_fence DESC LIMIT {{rows: ?}})
) found ORDER BY first_fence DESC LIMIT 1 OFFSET {{offset}}
