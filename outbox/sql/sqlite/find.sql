-- Returns the names of the outboxes: tables with these columns, beside which there is one of their migrations.
SELECT '', t.name
FROM sqlite_schema AS t
JOIN sqlite_schema AS x ON x.name = t.name || '_migrations'
WHERE t.type = 'table' AND 2 = (SELECT count(*) FROM pragma_table_info(t.name) WHERE name IN ('saved_by', 'due_at'))
ORDER BY 2
