-- Names the accounts that may call the procedures as services do, and can read the tables too, or columns of them: by
-- rights of their own, or by those of roles. The comments are statements: the first one of MariaDB, the second one of
-- MySQL.
WITH RECURSIVE held (user, host, via, via_host) AS (
	SELECT user, host, user, host FROM mysql.user WHERE host <> ''
	UNION SELECT user, host, 'PUBLIC', '' FROM mysql.user WHERE host <> ''
	UNION SELECT h.user, h.host, g.role, g.role_host FROM held h JOIN (
		/*M! SELECT user, host, role, '' AS role_host FROM mysql.roles_mapping */
		/*!80000 SELECT to_user AS user, to_host AS host, from_user AS role, from_host AS role_host FROM mysql.role_edges */
	) g ON g.user = h.via AND g.host = h.via_host
)
SELECT DISTINCT CONCAT('''', s.user, '''@''', s.host, '''')
FROM held s JOIN mysql.procs_priv p ON p.user = s.via AND p.host = s.via_host
	AND p.db = {{database_text}} AND p.routine_name = 'retrysafe_complete'
JOIN held r ON r.user = s.user AND r.host = s.host
WHERE EXISTS (SELECT 1 FROM mysql.user u WHERE u.user = r.via AND u.host = r.via_host AND u.select_priv = 'Y')
	OR EXISTS (SELECT 1 FROM mysql.db d WHERE d.user = r.via AND d.host = r.via_host AND d.select_priv = 'Y' AND p.db LIKE d.db)
	OR EXISTS (SELECT 1 FROM mysql.tables_priv t WHERE t.user = r.via AND t.host = r.via_host AND t.db = p.db
		AND t.table_name IN ({{tables_text}}, 'retrysafe_records') AND FIND_IN_SET('Select', CONCAT_WS(',', t.table_priv, t.column_priv)))
