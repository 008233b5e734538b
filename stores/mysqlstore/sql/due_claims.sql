-- Keys of records whose minute has come: those of the present minute only once they have expired. It locks nothing.
SELECT k, first_fence FROM {{claims}} FORCE INDEX (sweep)
WHERE sweep_at <= {{now}} DIV 60000000 AND (sweep_at < {{now}} DIV 60000000
	OR ends_at + CASE WHEN state > 2 THEN GREATEST(keep_key, keep_audit) ELSE keep_key END <= {{now}})
ORDER BY sweep_at LIMIT {{rows: ?}}
