-- Names the accounts that call the procedures as services do, and can read the tables too.
SELECT CONCAT('''', p.user, '''@''', p.host, '''') FROM mysql.procs_priv p
WHERE p.db = {{database_text}} AND p.routine_name = 'retrysafe_complete' AND (
	EXISTS (SELECT 1 FROM mysql.user u WHERE u.user = p.user AND u.host = p.host AND u.select_priv = 'Y')
	OR EXISTS (SELECT 1 FROM mysql.db d WHERE d.user = p.user AND d.host = p.host AND d.select_priv = 'Y' AND p.db LIKE d.db)
	OR EXISTS (SELECT 1 FROM mysql.tables_priv t WHERE t.user = p.user AND t.host = p.host AND t.db = p.db
		AND t.table_name IN ({{tables_text}}, 'retrysafe_records') AND FIND_IN_SET('Select', t.table_priv)))
