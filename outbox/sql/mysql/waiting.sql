SELECT saved_by, COUNT(*), CAST(SUM(LENGTH(header) + LENGTH(body)) AS SIGNED)
FROM {{messages}} FORCE INDEX ({{index due}})
WHERE state = 1 AND (?1 = '' OR topic = ?1)
GROUP BY saved_by
