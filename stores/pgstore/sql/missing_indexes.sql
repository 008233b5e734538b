-- The tables whose index on IDs is missing or was not finished, and whether a part of it is there; those that this role may
-- change.
SELECT t.relname, x.oid IS NOT NULL
FROM pg_class t
	LEFT JOIN pg_class x ON x.relnamespace = t.relnamespace AND x.relname = t.relname || '_id'
	LEFT JOIN pg_index i ON i.indexrelid = x.oid
WHERE t.relnamespace = {{schema_text}}::regnamespace AND t.relname IN ('claims', 'older')
	AND pg_has_role(t.relowner, 'USAGE') AND i.indisvalid IS NOT TRUE
ORDER BY t.relname
