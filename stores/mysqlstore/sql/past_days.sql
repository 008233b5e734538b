-- The partitions of days that ended a day ago or more.
SELECT partition_name FROM information_schema.partitions
WHERE table_schema = {{database_text}} AND table_name = {{results_text}} AND partition_name LIKE 'd%'
	AND CAST(partition_description AS SIGNED) <= ({{now}} DIV 86400000000 - 1) * 86400000000
ORDER BY partition_ordinal_position
