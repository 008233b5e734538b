-- The partitions of days that ended a day ago or more, if this role may drop them. One that is only a table was
-- detached, and has not been dropped.
SELECT c.relname, i.inhrelid IS NOT NULL, coalesce(i.inhdetachpending, false)
FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
WHERE c.relnamespace = {{schema_text}}::regnamespace AND c.relkind = 'r' AND c.relname ~ '^results_[0-9]{8}$'
	AND pg_has_role(c.relowner, 'USAGE')
	AND to_date(substr(c.relname, 9), 'YYYYMMDD') < (to_timestamp({{schema}}.clock() / 1e6) AT TIME ZONE 'UTC')::date - 1
ORDER BY c.relname
