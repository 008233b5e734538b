-- Returns the schemas and names of the outboxes that this user may read: tables with these columns, beside which there
-- is one of their migrations.
SELECT n.nspname, t.relname
FROM pg_class AS t
JOIN pg_namespace AS n ON n.oid = t.relnamespace
JOIN pg_class AS x ON x.relnamespace = t.relnamespace AND x.relname = (t.relname || '_migrations')::name
WHERE t.relkind IN ('r', 'p') AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(t.oid, 'SELECT')
	AND 2 = (SELECT count(*) FROM pg_attribute WHERE attrelid = t.oid AND attname IN ('saved_by', 'due_at'))
ORDER BY 1, 2
