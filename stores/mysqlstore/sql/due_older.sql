SELECT k, first_fence FROM {{older}} FORCE INDEX (sweep)
WHERE sweep_at <= {{now}} DIV 60000000 AND ends_at + keep_audit <= {{now}}
ORDER BY sweep_at LIMIT {{rows: ?}}
