-- Returns the names of the outboxes in the connection's database that this user may see: tables with these columns,
-- beside which there is one of their migrations.
SELECT '', t.table_name
FROM information_schema.tables AS t
WHERE t.table_schema = DATABASE()
	AND 1 = (SELECT COUNT(*) FROM information_schema.tables AS x
		WHERE x.table_schema = DATABASE() AND x.table_name = CONCAT(t.table_name, '_migrations'))
	AND 2 = (SELECT COUNT(*) FROM information_schema.columns AS c
		WHERE c.table_schema = DATABASE() AND c.table_name = t.table_name AND c.column_name IN ('saved_by', 'due_at'))
ORDER BY 2
